"""What a check knows of an exercise: its reference, its probes, and the mistakes that people make."""

import inspect
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from course_lib.checks.engine.misconceptions import (
    Misconception,
    PatchError,
    WrongNumber,
    equivalent_of,
    misconceptions_of,
    wrong_numbers_of,
)
from course_lib.checks.engine.probe import Probe


@dataclass(frozen=True)
class Prediction:
    """A number that a student is to predict before seeing it."""

    name: str
    answer: float
    tolerance: float
    """How far off an answer may be, as a fraction of the right one."""
    hint: str
    """What to think about, for an answer that is none of the known wrong ones."""
    misconceptions_file: Path | None = None

    @cached_property
    def misconceptions(self) -> tuple[WrongNumber, ...]:
        """The known wrong answers, read when first needed."""
        return wrong_numbers_of(self.misconceptions_file, self.name) if self.misconceptions_file else ()


@dataclass(frozen=True)
class Exercise:
    """A function or class that a student writes, with all that is needed to check it."""

    reference: Any
    """The function or class of the reference."""
    probes: Sequence[Probe]
    """In the order in which a failure is best reported: the plainest first."""
    misconceptions_file: Path | None = None
    compiled: dict[tuple[str, ...], Any] = field(default_factory=dict, repr=False, compare=False)
    """The versions with mistakes that were asked for, by the mistakes' names."""
    outcomes: dict[tuple[str, ...], Any] = field(default_factory=dict, repr=False, compare=False)
    """What probes saw of these versions, by the seed and the mistakes' names."""

    @cached_property
    def name(self) -> str:
        """The exercise's name, which is that of its function or class."""
        name: str = self.reference.__name__
        return name

    @cached_property
    def source(self) -> str:
        """The source of the reference's definition."""
        return textwrap.dedent(inspect.getsource(inspect.unwrap(self.reference)))

    @cached_property
    def misconceptions(self) -> tuple[Misconception, ...]:
        """The known misconceptions, read when first needed. Raises MisconceptionError if one is invalid."""
        if self.misconceptions_file is None:
            return ()
        return misconceptions_of(self.misconceptions_file, self.name, self.source)

    def source_with(self, *misconceptions: Misconception) -> str:
        """Return the definition with these mistakes in it. Raises PatchError if they cannot be combined."""
        if len(misconceptions) > 1 and any(mistake.exclusive for mistake in misconceptions):
            raise PatchError("an exclusive misconception is never combined with another")
        source = self.source
        if misconceptions and self.misconceptions_file is not None:
            source = equivalent_of(self.misconceptions_file, self.name) or source
        for misconception in misconceptions:
            source = misconception.apply(source)
        return source

    def with_mistakes(self, *misconceptions: Misconception) -> Any:
        """Return the reference with these mistakes. Raises PatchError if the patches don't fit."""
        if not misconceptions:
            return self.reference
        key = tuple(misconception.name for misconception in misconceptions)
        if key not in self.compiled:
            names = dict(vars(sys.modules[self.reference.__module__]))
            exec(compile(self.source_with(*misconceptions), f"<{'+'.join(key)}>", "exec"), names)
            self.compiled[key] = names[self.name]
        return self.compiled[key]
