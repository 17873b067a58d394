"""The data for checking an exercise: its reference, probes and known mistakes."""

import __future__

import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.misconceptions import (
    Misconception,
    PatchError,
    equivalent_of,
    misconceptions_of,
)
from course_lib.checks.engine.probe import Ask, Draw, Observed, Probe


@dataclass(eq=False)
class ExerciseCheck:
    """The check of a function or class that a student writes."""

    reference: Any
    """The reference implementation: a function or a class."""
    misconceptions_file: Path | None = None
    """The file with the known misconceptions. The registry sets this field."""
    probes: list[Probe] = field(default_factory=list)
    """Probes in the order in which failures should be reported: the simplest first."""
    uncounted: int = 0
    """The part of a probe's cost that the count of torch function calls misses, such as calls in threads."""

    @cached_property
    def name(self) -> str:
        """The name of the exercise, which is the name of its function or class."""
        return self.reference.__name__

    @cached_property
    def source(self) -> str:
        """The source of the reference's definition."""
        return textwrap.dedent(inspect.getsource(inspect.unwrap(self.reference)))

    @cached_property
    def source_to_patch(self) -> str:
        """The source to which misconceptions apply.

        This is the simpler version in the misconceptions file's table `equivalents`, if it contains one for
        this exercise, and otherwise the reference's source.
        """
        if self.misconceptions_file is None:
            return self.source
        return equivalent_of(self.misconceptions_file, self.name) or self.source

    @cached_property
    def misconceptions(self) -> tuple[Misconception, ...]:
        """The known misconceptions, loaded on first use. Raises MisconceptionError if one is invalid."""
        if self.misconceptions_file is None:
            return ()
        return misconceptions_of(self.misconceptions_file, self.name, self.source_to_patch)

    def probe(self, description: str, tolerance: float | None = None) -> Callable[[Ask], Probe]:
        """Return a decorator that replaces a function with a `Probe`, and adds it to this exercise's probes.

        `description` and `tolerance` are the fields of the same names in `Probe`.
        """

        def add(ask: Ask) -> Probe:
            self.probes.append(Probe(description, ask, tolerance, f"{ask.__module__}.{ask.__qualname__}"))
            return self.probes[-1]

        return add

    def cases(self, ask: Callable[..., Observed]) -> Callable[..., None]:
        """Return a function that adds a probe without random numbers.

        Its first argument is the probe's `description`. The probe passes the other arguments to `ask`, after
        the candidate.
        """

        def add(description: str, *arguments: object, **keywords: object) -> None:
            self.probes.append(
                Probe(description, lambda candidate, _: ask(candidate, *arguments, **keywords))
            )

        return add

    def random_cases(
        self, ask: Callable[..., Observed], module: str, tolerance: float | None = None
    ) -> Callable[..., None]:
        """Return a function that adds a probe with random numbers and this `tolerance`.

        Its first argument is a name that is unique in `module` and determines the random numbers. The second
        is the probe's `description`. The probe passes the remaining arguments to `ask`, after the candidate
        and the generator of random numbers.
        """

        def add(name: str, description: str, *arguments: object, **keywords: object) -> None:
            def call(candidate: Candidate, draw: Draw) -> Observed:
                return ask(candidate, draw, *arguments, **keywords)

            self.probes.append(Probe(description, call, tolerance, f"{module}.{name}"))

        return add

    def source_with(self, *misconceptions: Misconception) -> str:
        """Return the source of the reference with these misconceptions applied.

        Raises PatchError if they can't be applied together.
        """
        if len(misconceptions) > 1 and any(mistake.exclusive for mistake in misconceptions):
            raise PatchError("an exclusive misconception is never combined with another")
        source = self.source_to_patch if misconceptions else self.source
        for misconception in misconceptions:
            source = misconception.apply(source)
        return source

    def with_mistakes(self, *misconceptions: Misconception) -> Any:
        """Return the reference with these misconceptions applied.

        Raises PatchError if they can't be applied together, or SyntaxError if the result isn't valid Python.
        """
        if not misconceptions:
            return self.reference
        label = "+".join(misconception.name for misconception in misconceptions)
        names = dict(vars(sys.modules[self.reference.__module__]))
        # Annotations of shapes stay strings: evaluating them would take as long as a probe.
        flags = __future__.annotations.compiler_flag
        exec(compile(self.source_with(*misconceptions), f"<{label}>", "exec", flags), names)
        return names[self.name]
