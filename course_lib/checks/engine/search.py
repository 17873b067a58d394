"""Search for misconceptions that explain a student's results."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from torch import Tensor

from course_lib.checks.engine.comparison import Comparison
from course_lib.checks.engine.exercise import Exercise
from course_lib.checks.engine.misconceptions import Misconception, PatchError
from course_lib.checks.engine.reply import RAISED_BY_NAME, Raised, Returned, Value
from course_lib.checks.engine.versions import Mistakes, Outcome, Versions, alike, difference, parts_of

#: At most so many misconceptions explain an answer together.
_MOST_COMBINED = 4

#: How much is tried, in calls of torch functions, to answer unknown mistakes in time. A time limit would
#: instead give the same answer different verdicts on different machines.
_EFFORT = 100_000

#: So many of the most promising combinations are extended.
_WIDTH = 3


@dataclass(frozen=True)
class Resemblance:
    """Misconceptions that give the student's result in one probe, or in a part of it."""

    mistakes: Mistakes
    probe: int
    part: str = ""
    """The name of the part of the result that is the same; empty if all of it is."""


@dataclass(frozen=True)
class Explanation:
    """What is known of a student's results."""

    named: Mistakes = ()
    """Misconceptions that together explain every probe."""
    similar: Resemblance | None = None
    """If there are none, misconceptions that explain one of the failing probes."""


def combinable(exercise: Exercise) -> Iterator[tuple[Misconception, Misconception]]:
    """Yield the pairs of an exercise's misconceptions that can be combined."""
    for pair in combinations(exercise.misconceptions, 2):
        if can_be_combined(exercise, pair):
            yield pair


def can_be_combined(exercise: Exercise, mistakes: Mistakes) -> bool:
    """Return whether the patches of these misconceptions fit together."""
    try:
        exercise.with_mistakes(*mistakes)
    except (PatchError, SyntaxError):
        return False
    return True


class Search:
    """Find misconceptions that together give the student's results.

    Start from the first probe in which the student's result is wrong, find misconceptions that give the same
    there, apply them to the reference, and continue with the first probe that is still unexplained.
    """

    def __init__(
        self,
        exercise: Exercise,
        versions: Versions,
        found: Sequence[Outcome],
        failing: Collection[int],
        general: Sequence[Misconception] = (),
    ) -> None:
        self._exercise, self._versions, self._found = exercise, versions, found
        self._failing = sorted(failing)
        self._known = (*exercise.misconceptions, *general)

    def explanation(self) -> Explanation:
        """Return misconceptions that explain every probe, else some that explain a failing one."""
        start = self._failing[0]
        frontier: list[tuple[int, Mistakes]] = []
        for mistake in self._known:
            reached = self._explained((mistake,))
            if reached is None:
                return Explanation((mistake,))
            if reached > start:
                frontier.append((reached, (mistake,)))
        if not frontier:
            frontier = [(start, ())]
        best = max(frontier, key=lambda one: one[0])
        while frontier and len(frontier[0][1]) < _MOST_COMBINED:
            frontier = sorted(frontier, key=lambda one: -one[0])[:_WIDTH]
            extended: list[tuple[int, Mistakes]] = []
            for at, mistakes in frontier:
                for more in self._extensions(at, mistakes):
                    reached = self._explained(more)
                    if reached is None:
                        return Explanation(more)
                    if reached > at:
                        extended.append((reached, more))
            frontier = extended
            best = max([best, *frontier], key=lambda one: one[0])
        # Two misconceptions can also hide behind a third, which alone explains the first failing probe.
        for pair in combinable(self._exercise):
            if self._is_exhausted:
                break
            if self._explained(pair) is None:
                return Explanation(pair)
        if best[1] and self._is_telling(self._found[start].observed):
            return Explanation(similar=Resemblance(best[1], start))
        return Explanation(similar=self._resemblance())

    @property
    def _is_exhausted(self) -> bool:
        return self._versions.runs > _EFFORT

    def _resemblance(self) -> Resemblance | None:
        """Return a misconception that explains one of the failing probes, or else a part of one."""
        for number in self._failing:
            if not self._is_telling(self._found[number].observed):
                continue
            for mistake in self._known:
                if self._versions.runs > 1.5 * _EFFORT:
                    return None
                if self._alike((mistake,), number):
                    return Resemblance((mistake,), number)
        for number in self._failing:
            for mistake in self._known:
                if self._versions.runs > 1.5 * _EFFORT:
                    return None
                if part := self._part(mistake, number):
                    return Resemblance((mistake,), number, part)
        return None

    def _part(self, mistake: Misconception, number: int) -> str:
        """Return the name of a wrong part of the student's result that a misconception explains."""
        found = parts_of(self._found[number].observed)
        if len(found) < 2:
            return ""
        expected = parts_of(self._versions.reference(number).observed)
        version = parts_of(self._versions.outcome((mistake,), number).observed)
        if not found.keys() == expected.keys() == version.keys():
            return ""
        comparison = Comparison(self._exercise.probes[number].tolerance, messages=True)
        for name, value in found.items():
            if (
                self._is_telling(value)
                and comparison.difference(expected[name], value) is not None
                and comparison.difference(version[name], value) is None
            ):
                return name
        return ""

    def _extensions(self, at: int, mistakes: Mistakes) -> Iterator[Mistakes]:
        """Yield larger combinations that give the student's result in the probe `at`: by one, else by two."""
        visible: list[Misconception] = []
        explained = False
        for mistake in self._known:
            more = self._combined(mistakes, mistake)
            if more is None or self._is_exhausted:
                continue
            if self._alike(more, at):
                explained = True
                yield more
            elif self._differs(mistakes, more, at):
                visible.append(mistake)
        if explained or len(mistakes) > _MOST_COMBINED - 2:
            return
        for one, other in combinations(visible, 2):
            first = self._combined(mistakes, one)
            more = first and self._combined(first, other)
            if not more or self._is_exhausted:
                continue
            if self._alike(more, at):
                yield more

    def _combined(self, mistakes: Mistakes, mistake: Misconception) -> Mistakes | None:
        """Add a misconception, if it can be combined with the others."""
        if mistake in mistakes:
            return None
        combined = tuple(sorted((*mistakes, mistake), key=self._known.index))
        return combined if can_be_combined(self._exercise, combined) else None

    def _explained(self, mistakes: Mistakes) -> int | None:
        """Return the first probe in which these misconceptions give something else; None if there is none."""
        probes = range(len(self._exercise.probes))
        return next((number for number in probes if not self._alike(mistakes, number)), None)

    def _alike(self, mistakes: Mistakes, number: int) -> bool:
        """Return whether the student's result in a probe is what these misconceptions give.

        If that is correct, the student's result only needs to be correct too. Else all replies must be the
        same, including the messages of exceptions.
        """
        probe, found = self._exercise.probes[number], self._found[number]
        version = self._versions.outcome(mistakes, number)
        if difference(probe, self._versions.reference(number), version) is None:
            return number not in self._failing
        return number in self._failing and alike(probe, version, found)

    def _differs(self, mistakes: Mistakes, more: Mistakes, number: int) -> bool:
        """Return whether the larger combination shows in a probe."""
        one, other = self._versions.outcome(mistakes, number), self._versions.outcome(more, number)
        return not alike(self._exercise.probes[number], one, other)

    def _is_telling(self, value: Value) -> bool:
        """Return whether equal results are more than a coincidence."""
        return _weight(value) >= 3


def _weight(observed: Value) -> int:
    """Count the numbers in a value that one would not get by chance."""
    if isinstance(observed, Raised):
        # The messages of other exceptions are compared too, and most contain sizes or names.
        return 0 if observed.note == RAISED_BY_NAME else 3
    if isinstance(observed, Returned):
        return _weight(observed.value)
    if isinstance(observed, Tensor):
        # A constant tensor, such as zeros, is easily got by chance.
        countable = observed.device.type == "cpu" and not observed.is_complex()
        varied = countable and observed.unique().numel() > 1
        return observed.numel() if varied else 0
    if isinstance(observed, float):
        return 0 if observed.is_integer() or observed != observed else 3
    if isinstance(observed, tuple):
        return sum(max(_weight(item), 1) for item in observed)
    if isinstance(observed, dict):
        return sum(_weight(item) for item in observed.values())
    return 0
