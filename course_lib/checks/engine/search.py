"""Search for misconceptions that explain a student's results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from torch import Tensor

from course_lib.checks.engine.comparison import Comparison, Difference, part_name
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.misconceptions import Misconception, PatchError, common_misconceptions
from course_lib.checks.engine.outcomes import Outcome, alike
from course_lib.checks.engine.probe import Probe
from course_lib.checks.engine.reply import RAISED_BY_NAME, Raised, Returned, Text, Value
from course_lib.checks.engine.slips import slips_in
from course_lib.checks.engine.versions import Mistakes, Versions, compiled

#: The maximum number of misconceptions that are combined to explain an answer.
_MAX_COMBINED = 4

#: The budget of the search in units of effort (see `Versions.effort`), which take about 10 microseconds each.
#: So a check takes about two seconds at most, even if it doesn't recognise the mistake. A time limit would
#: lead to different verdicts on different machines.
_EFFORT = 125_000

#: The share of the remaining budget for trying single misconceptions, if some already explain the first
#: failing probe. The rest is for combining these with others.
_TRYING_SHARE = 0.75

#: The additional budget for finding a small slip.
_SLIP_EFFORT = 15_000

#: The total budget, including the search for resemblances that follows if nothing explains all results.
_ALL_EFFORT = 152_000

#: The additional budget for finding a misconception that explains most failing probes, but not all.
_LIKELY_EFFORT = 12_000

#: The budget for deciding which misconceptions to combine first.
_ORDERING_EFFORT = 45_000

#: The width of the beam: the number of combinations that are extended in each round.
_WIDTH = 3


@dataclass(frozen=True)
class Resemblance:
    """Misconceptions that reproduce the student's result in one probe, or one part of that result."""

    mistakes: Mistakes
    probe: Probe
    """The failing probe in which the results are equal."""
    parts: tuple[str, ...] = ()
    """The names of the parts of the result that are equal; empty if all of it is."""
    others: int = 0
    """The number of other failing probes that these misconceptions are known to explain."""
    unexplained: Probe | None = None
    """A probe whose outcome these misconceptions don't explain; None if they explain only `parts`."""
    is_ambiguous: bool = False
    """Whether other misconceptions explain as many results, so that these are only a guess."""
    is_likely: bool = False
    """Whether these misconceptions explain most failing probes, and make no other probe fail."""
    is_error: bool = False
    """Whether the student's result in the probe is an exception, which many mistakes can raise."""


@dataclass(frozen=True)
class Explanation:
    """An explanation of a student's results by known misconceptions."""

    named: Mistakes = ()
    """Misconceptions that together explain every probe."""
    named_by_error: bool = False
    """Whether the only evidence for `named` is exceptions, which other mistakes can raise as well."""
    similar: Resemblance | None = None
    """If `named` is empty, misconceptions that explain a failing probe's result or a part of it."""


def can_be_combined(exercise: ExerciseCheck, mistakes: Mistakes) -> bool:
    """Return whether these misconceptions can be applied to the reference together."""
    try:
        compiled(exercise, mistakes)
    except (PatchError, SyntaxError):
        return False
    return True


class Search:
    """A search for misconceptions that together reproduce the student's results.

    `found` holds the student's outcome of each probe, and `differences` the difference in each probe that
    failed. The search starts from the first failing probe, finds misconceptions that produce the same
    result there, applies them to the reference, and continues with the first probe that is still unexplained.
    """

    def __init__(
        self,
        exercise: ExerciseCheck,
        versions: Versions,
        found: Sequence[Outcome],
        differences: Mapping[int, Difference],
    ) -> None:
        self._exercise, self._versions, self._found = exercise, versions, found
        self._failing = sorted(differences)
        self._start = self._failing[0]
        structural = any(
            difference.structural and not isinstance(found[number].observed, Raised)
            for number, difference in differences.items()
        )
        # The result of a class without `forward` can't be replaced as a whole.
        replaceable = not isinstance(exercise.reference, type) or hasattr(exercise.reference, "forward")
        common = common_misconceptions() if structural and replaceable else ()
        self._known = (*exercise.misconceptions, *common)
        self._order = {mistake: number for number, mistake in enumerate(self._known)}
        self._reached: dict[Mistakes, int | None] = {}
        """The first probe that each combination tried so far doesn't explain."""
        self._plausible: list[Misconception] = []
        """Misconceptions that keep the results of all probes before the first failing one correct."""
        self._promising: list[tuple[int, Mistakes]] = []
        """Pairs of the first unexplained probe and a combination that explains the first failing probe."""

    def explanation(self, combine: bool) -> Explanation:
        """Return misconceptions that explain all results or, failing that, one wrong result or a part of it.

        If there are none, the explanation is empty. Without `combine`, only single misconceptions that
        explain all results are searched for.
        """
        named = self._single()
        if not named and combine:
            named = self._combination() or self._slip()
        if named or not combine:
            return Explanation(named)
        return Explanation(similar=self._likely() or self._closest())

    def _single(self) -> Mistakes:
        """Return one misconception that explains all results, or an empty tuple."""
        for mistake in self._known:
            # Check these two probes first, because most misconceptions fail to explain one of them.
            if not (self._explains((mistake,), 0) and self._explains((mistake,), self._start)):
                continue
            reached = self._first_unexplained((mistake,))
            if reached is None:
                return (mistake,)
            if reached > self._start:
                self._promising.append((reached, (mistake,)))
        return ()

    def _combination(self) -> Mistakes:
        """Return several misconceptions that together explain all results, or an empty tuple."""
        share = _TRYING_SHARE if self._promising else 1.0
        limit = self._versions.effort + share * (_EFFORT - self._versions.effort)
        for mistake in self._known:
            if self._versions.effort > limit:
                break
            reached = self._first_unexplained((mistake,))
            assert reached is not None, "`_single` would have returned it"
            if reached >= self._start:
                self._plausible.append(mistake)
        return self._beam_search() or self._pair() or self._triple()

    def _beam_search(self) -> Mistakes:
        """Extend the most promising combinations in rounds. Return the first that explains all results."""
        frontier = list(self._promising) or [(self._start, ())]
        while frontier and len(frontier[0][1]) < _MAX_COMBINED:
            extended: list[tuple[int, Mistakes]] = []
            for at, mistakes in sorted(frontier, key=lambda one: -one[0])[:_WIDTH]:
                for more in self._extensions(at, mistakes):
                    reached = self._first_unexplained(more)
                    if reached is None:
                        return more
                    if reached > at:
                        extended.append((reached, more))
            self._promising += extended
            frontier = extended
        return ()

    def _pair(self) -> Mistakes:
        """Return a pair that explains all results, or an empty tuple.

        The beam search misses a pair if another misconception alone explains the first failing probe. Pairs
        in which each misconception changes the result of this probe are tried first.
        """
        visible = set(self._visible())

        def number_of_invisible(pair: Mistakes) -> int:
            return sum(mistake not in visible for mistake in pair)

        for pair in sorted(combinations(self._exercise.misconceptions, 2), key=number_of_invisible):
            if self._is_exhausted:
                break
            if can_be_combined(self._exercise, pair) and self._first_unexplained(pair) is None:
                return pair
        return ()

    def _triple(self) -> Mistakes:
        """Return three misconceptions that together explain all results, or an empty tuple.

        The result is also empty if fewer misconceptions explain the first failing probe.
        """
        if self._promising:
            return ()
        groups = self._groups((), self._visible(), self._start, 3)
        return next((group for group in groups if self._first_unexplained(group) is None), ())

    def _visible(self) -> list[Misconception]:
        """Return the plausible misconceptions that change the result of the first failing probe."""
        return [mistake for mistake in self._plausible if self._differs((), (mistake,), self._start)]

    def _slip(self) -> Mistakes:
        """Return a small slip that explains all results, or an empty tuple."""
        exercise, limit = self._exercise, self._versions.effort + _SLIP_EFFORT
        order = (self._start, *range(len(exercise.probes)))
        for source in dict.fromkeys((exercise.source_to_patch, exercise.source)):
            for slip in slips_in(source, exercise.source_to_patch):
                if self._versions.effort > limit:
                    return ()
                if can_be_combined(exercise, (slip,)) and all(self._explains((slip,), one) for one in order):
                    return (slip,)
        return ()

    def _closest(self) -> Resemblance | None:
        """Return misconceptions that explain a failing probe or, failing that, a part of its result."""
        closest = self._farthest(_MAX_COMBINED)
        # There are so many combinations that one may explain some failing probes by coincidence. So prefer a
        # single misconception to a combination that doesn't explain all failing probes.
        if closest is not None and len(closest.mistakes) > 1 and closest.others + 1 < len(self._failing):
            closest = self._farthest(1)
        observed = self._found[self._start].observed
        if closest is not None and _is_telling(observed):
            return closest
        similar = self._resemblance()
        if similar is None and not _is_unspecific(observed):
            # The agreement may be a coincidence, but these misconceptions explain the first failing probe.
            return closest
        return similar

    def _farthest(self, size: int) -> Resemblance | None:
        """Return the promising combination of at most `size` misconceptions that explains the most probes."""
        promising = [one for one in self._promising if len(one[1]) <= size]
        if not promising:
            return None
        _, mistakes = max(promising, key=lambda one: one[0])
        return self._resembling(mistakes, self._start)

    @property
    def _is_exhausted(self) -> bool:
        return self._versions.effort > _EFFORT

    def _resembling(self, mistakes: Mistakes, number: int) -> Resemblance:
        """Return a `Resemblance` for misconceptions that explain probe `number`, but not all probes.

        If another combination of the same size explains more of the later probes, it is used instead.
        """
        unexplained = self._first_unexplained(mistakes)
        assert unexplained is not None
        others = sum(other < unexplained for other in self._failing if other != number)
        rivals = [
            rival
            for rival, reached in self._reached.items()
            if reached == unexplained > number and len(rival) == len(mistakes)
        ]
        ambiguous = False
        if len(rivals) > 1:
            # Several combinations explain the same probes up to here, so the later probes decide.
            later = range(unexplained, len(self._found))
            score = {rival: sum(self._explains(rival, other) for other in later) for rival in rivals}
            rivals = [rival for rival in rivals if score[rival] == max(score.values())]
            if mistakes not in rivals:
                mistakes = rivals[0]
            # Rivals with the same results in all probes are the same mistake under several names.
            every = range(len(self._found))
            ambiguous = any(self._differs(mistakes, rival, other) for rival in rivals for other in every)
        probes = self._exercise.probes
        return Resemblance(
            mistakes,
            probes[number],
            others=others,
            unexplained=probes[unexplained],
            is_ambiguous=ambiguous,
            is_error=isinstance(self._found[number].observed, Raised),
        )

    def _likely(self) -> Resemblance | None:
        """Return a misconception that produces most of the wrong results and makes no other probe fail.

        The other results may differ, because a mistake can have other consequences in code that is structured
        differently, for example an exception instead of NaN. Returns None if fewer than three probes fail, if
        fewer than two of their results or fewer than half of them are equal, if several misconceptions
        explain equally many, or if the budget is used up.
        """
        if len(self._failing) < 3:
            return None
        limit = self._versions.effort + _LIKELY_EFFORT
        alike_in: dict[Misconception, list[int]] = {}
        for mistakes in self._reached:
            if len(mistakes) != 1 or not self._explains(mistakes, self._failing[0]):
                continue
            if self._versions.effort > limit:
                return None
            (mistake,) = mistakes
            failing = [number for number in range(len(self._found)) if not self._is_right(mistakes, number)]
            if set(failing) <= set(self._failing):
                alike_in[mistake] = [number for number in failing if self._explains(mistakes, number)]
        if not alike_in:
            return None
        most = max(map(len, alike_in.values()))
        likely = [mistake for mistake, numbers in alike_in.items() if len(numbers) == most]
        if most < 2 or 2 * most < len(self._failing) or len(likely) > 1:
            return None
        numbers, probes = alike_in[likely[0]], self._exercise.probes
        other = next(probes[number] for number in self._failing if number not in numbers)
        return Resemblance(
            (likely[0],), probes[numbers[0]], others=most - 1, unexplained=other, is_likely=True
        )

    def _resemblance(self) -> Resemblance | None:
        """Return a misconception that explains a failing probe's result or a part of it.

        Returns None if there is none, or if the budget of the search is used up.
        """
        for number in self._failing:
            if not _is_telling(self._found[number].observed):
                continue
            for mistake in self._known:
                if self._versions.effort > _ALL_EFFORT:
                    return None
                if self._explains((mistake,), number):
                    return self._resembling((mistake,), number)
        for number in self._failing:
            for mistake in self._known:
                if self._versions.effort > _ALL_EFFORT:
                    return None
                if parts := self._parts(mistake, number):
                    return Resemblance((mistake,), self._exercise.probes[number], parts)
        return None

    def _parts(self, mistake: Misconception, number: int) -> tuple[str, ...]:
        """Return the names of the wrong parts of a result that a misconception explains.

        Returns an empty tuple if there are none or more than three, or if the agreement could be a
        coincidence.
        """
        found = _parts_of(self._found[number].observed)
        if len(found) < 2:
            return ()
        expected = _parts_of(self._versions.reference(number).observed)
        version = _parts_of(self._versions.outcome((mistake,), number).observed)
        if not found.keys() == expected.keys() == version.keys():
            return ()
        agree = Comparison(self._exercise.probes[number].tolerance, messages=True).agree
        explained = {
            name: value
            for name, value in found.items()
            if not agree(expected[name], value) and agree(version[name], value)
        }
        # A single number that agrees may be a coincidence, even if it occurs several times.
        numbers = {value for value in explained.values() if isinstance(value, float)}
        others = [value for value in explained.values() if not isinstance(value, float)]
        is_telling = len(explained) < 4 and _weight((*numbers, *others)) > 4
        return tuple(explained) if is_telling else ()

    def _extensions(self, at: int, mistakes: Mistakes) -> Iterator[Mistakes]:
        """Add one misconception to a combination, or two if no single one is enough.

        Yields the combinations that explain probe `at`.
        """
        visible: list[Misconception] = []
        explained = False
        for mistake in self._plausible:
            if self._is_exhausted:
                break
            more = self._combined(mistakes, mistake)
            if more is None:
                continue
            if self._explains(more, at):
                explained = True
                yield more
            elif self._differs(mistakes, more, at):
                visible.append(mistake)
        if not explained and len(mistakes) < _MAX_COMBINED - 1:
            yield from self._groups(mistakes, visible, at, 2)

    def _groups(
        self, mistakes: Mistakes, visible: Sequence[Misconception], at: int, size: int
    ) -> Iterator[Mistakes]:
        """Add `size` of the `visible` misconceptions to a combination.

        Yields the combinations that produce the student's result in probe `at`, the most promising first.
        """
        if self._is_exhausted:
            return
        promise = self._promises(mistakes, visible, at)

        def unlikeliness(group: Mistakes) -> int:
            return -sum(promise[mistake] for mistake in group)

        for group in sorted(combinations(visible, size), key=unlikeliness):
            if self._is_exhausted:
                break
            more = self._combined(mistakes, *group)
            if more is not None and self._explains(more, at):
                yield more

    def _promises(
        self, mistakes: Mistakes, visible: Sequence[Misconception], at: int
    ) -> Mapping[Misconception, int]:
        """Score each of the `visible` misconceptions by what it explains when added to a combination.

        Each explained aspect of the outcome of probe `at` scores 1, and each other failing probe that is
        explained scores 2. Probes that would exceed the budget for this are skipped.
        """
        promises = dict.fromkeys(visible, 0)
        larger: dict[Misconception, Mistakes] = {}
        limit = self._versions.effort + _ORDERING_EFFORT
        found = _aspects(self._found[at])
        agree = Comparison(self._exercise.probes[at].tolerance, messages=True).agree
        for mistake in visible:
            if self._is_exhausted:
                break
            more = self._combined(mistakes, mistake)
            assert more is not None
            larger[mistake] = more
            aspects = _aspects(self._versions.outcome(more, at))
            promises[mistake] = sum(
                name in aspects and agree(aspects[name], value) for name, value in found.items()
            )
        # Run each probe for all misconceptions or for none, so that their order in the file doesn't matter.
        for number in sorted(self._failing, key=self._versions.cost):
            if self._versions.effort + len(visible) * self._versions.cost(number) > limit:
                break
            for mistake, more in larger.items():
                promises[mistake] += 2 * (number != at and self._explains(more, number))
        return promises

    def _combined(self, mistakes: Mistakes, *more: Misconception) -> Mistakes | None:
        """Add misconceptions to a combination. Return None if they can't be combined with it."""
        if any(mistake in mistakes for mistake in more):
            return None
        combined = tuple(sorted((*mistakes, *more), key=self._order.__getitem__))
        return combined if can_be_combined(self._exercise, combined) else None

    def _first_unexplained(self, mistakes: Mistakes) -> int | None:
        """Return the index of the first probe that these misconceptions don't explain.

        Return None if they explain all probes.
        """
        probes = range(len(self._exercise.probes))
        reached = next((number for number in probes if not self._explains(mistakes, number)), None)
        self._reached[mistakes] = reached
        return reached

    def _explains(self, mistakes: Mistakes, number: int) -> bool:
        """Return whether these misconceptions explain the student's result in a probe.

        If their result is correct, the student's result only needs to be correct too. Otherwise all replies
        must be equal, including the messages of exceptions.
        """
        version = self._versions.outcome(mistakes, number)
        # Most versions produce a wrong result that differs from the student's, so test that first.
        is_failing = number in self._failing
        if is_failing and not alike(self._exercise.probes[number], version, self._found[number]):
            return False
        return self._is_right(mistakes, number) != is_failing

    def _is_right(self, mistakes: Mistakes, number: int) -> bool:
        """Return whether the result of a probe is correct in spite of these misconceptions."""
        expected, version = self._versions.reference(number), self._versions.outcome(mistakes, number)
        agree = Comparison(self._exercise.probes[number].tolerance).agree
        return agree(expected.observed, version.observed)

    def _differs(self, mistakes: Mistakes, more: Mistakes, number: int) -> bool:
        """Return whether two combinations of misconceptions produce different results in a probe."""
        one, other = self._versions.outcome(mistakes, number), self._versions.outcome(more, number)
        return not alike(self._exercise.probes[number], one, other)


def _is_telling(value: Value) -> bool:
    """Return whether a result is so specific that equality with it is unlikely to be a coincidence."""
    return _weight(value) >= 3


def _is_unspecific(observed: Value) -> bool:
    """Return whether a result is too unspecific to indicate one cause.

    This is the case for None, and for an exception from a `raise` or `assert` in the student's code.
    """
    return observed is None or (isinstance(observed, Raised) and observed.note == RAISED_BY_NAME)


def _aspects(outcome: Outcome) -> dict[str, Value]:
    """Return the parts of a probe's result, and the side effects of each request, by name."""
    aspects = _parts_of(outcome.observed)
    for number, reply in enumerate(outcome.replies):
        if isinstance(reply, Returned):
            aspects |= {f"changed by {number}": reply.changed, f"called by {number}": reply.called}
    return aspects


def _parts_of(value: Value, name: str = "the result") -> dict[str, Value]:
    """Return the parts of a result by name. Dicts and tuples are split recursively.

    The entries of a dict are named by their keys, and the items of a tuple by `part_name`. A tuple that holds
    only numbers and strings isn't split. `name` is the name of the whole value.
    """
    if isinstance(value, Returned):
        return _parts_of(value.value, name)
    if isinstance(value, dict):
        return {key: part for inner, item in value.items() for key, part in _parts_of(item, inner).items()}
    if isinstance(value, tuple) and not _is_plain(value):
        return {
            key: part
            for number, item in enumerate(value)
            for key, part in _parts_of(item, part_name(name, number)).items()
        }
    return {name: value}


def _is_plain(value: Sequence[Value]) -> bool:
    return all(isinstance(item, int | float | str) for item in value)


def _weight(observed: Value) -> int:
    """Estimate how specific a value is: roughly, the number of its elements unlikely to agree by chance."""
    if isinstance(observed, Raised):
        # The messages of other exceptions are compared too, and most contain sizes or names.
        return 0 if observed.note == RAISED_BY_NAME else 3
    if isinstance(observed, Returned):
        return _weight(observed.value)
    if isinstance(observed, Tensor):
        # A constant tensor, such as zeros, is easily obtained by chance.
        countable = observed.device.type == "cpu" and not observed.is_complex()
        varied = countable and observed.unique().numel() > 1
        return observed.numel() if varied else 0
    if isinstance(observed, float):
        return 0 if observed.is_integer() or observed != observed else 3
    if isinstance(observed, Text):
        return len(observed.split())
    if isinstance(observed, str):
        # A fact that contains a number is unlikely to agree by chance.
        return 3 if observed != "0" and any(letter.isdigit() for letter in observed) else 0
    if isinstance(observed, tuple):
        return sum(max(_weight(item), 1) for item in observed)
    if isinstance(observed, dict):
        return sum(_weight(item) for item in observed.values())
    return 0
