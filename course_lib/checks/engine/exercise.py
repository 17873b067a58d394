"""What a check knows of an exercise: its reference, its probes, and the mistakes that people make."""

import inspect
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from course_lib.checks.engine.probe import Probe


@dataclass(frozen=True)
class Misconception:
    """A plausible wrong version of a reference, as a small patch on its source."""

    name: str
    says: str
    """What is wrong, as a clause that follows the exercise's name: "the scores are not divided"."""
    hint: str
    """Why it is wrong, for a student who is to mend it."""
    paper: str
    """The section of the paper, or the other source, to read."""
    patch: Sequence[tuple[str, str]]
    """Pieces of the reference's source, each of which occurs once, and what stands there instead."""


def alone(reference: Callable[..., Any], *pieces: tuple[str, str]) -> list[tuple[str, str]]:
    """Make one patch of several, over the whole source, so that this mistake is combined with no other.

    Such a mistake hides what else is wrong, or is not made in passing; with all pairs, a check would be slow.
    It has to stand behind those that can be combined: its patch fits the unpatched source only.
    """
    right = wrong = textwrap.dedent(inspect.getsource(inspect.unwrap(reference)))
    for piece, instead in pieces:
        assert wrong.count(piece) == 1, piece
        wrong = wrong.replace(piece, instead)
    return [(right, wrong)]


@dataclass(frozen=True)
class WrongNumber:
    """A plausible wrong answer to a prediction."""

    name: str
    value: float
    hint: str


@dataclass(frozen=True)
class Prediction:
    """A number that a student is to predict before seeing it."""

    name: str
    answer: float
    tolerance: float
    """How far off an answer may be, as a fraction of the right one."""
    hint: str
    """What to think about, for an answer that is none of the known wrong ones."""
    misconceptions: Sequence[WrongNumber] = ()


class PatchError(Exception):
    """A patch does not fit the reference: the reference was changed, or two patches cannot be combined."""


@dataclass(frozen=True)
class Exercise:
    """A function or class that a student writes, with all that is needed to check it."""

    reference: Any
    """The function or class of the reference."""
    probes: Sequence[Probe]
    """In the order in which a failure is best reported: the plainest first."""
    misconceptions: Sequence[Misconception] = ()
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

    def source_with(self, *misconceptions: Misconception) -> str:
        """Give the definition with these mistakes in it. Raises PatchError where they cannot be put in."""
        source = self.source
        for misconception in misconceptions:
            for right, wrong in misconception.patch:
                if source.count(right) != 1:
                    raise PatchError(
                        f"{self.name}, {misconception.name}: the patch needs {right!r} to stand once in the "
                        f"source, and it stands there {source.count(right)} times"
                    )
                source = source.replace(right, wrong)
        return source

    def with_mistakes(self, *misconceptions: Misconception) -> Any:
        """Give the function or class with these mistakes in it. Raises PatchError where they don't fit."""
        if not misconceptions:
            return self.reference
        key = tuple(misconception.name for misconception in misconceptions)
        if key not in self.compiled:
            names = dict(vars(sys.modules[self.reference.__module__]))
            exec(compile(self.source_with(*misconceptions), f"<{'+'.join(key)}>", "exec"), names)
            self.compiled[key] = names[self.name]
        return self.compiled[key]
