"""Check an exercise: run the probes, compare with the reference, find the mistakes that explain it."""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Backend, Candidate, Request
from course_lib.checks.engine.comparison import Comparison, Difference, describe, returned_exception
from course_lib.checks.engine.exercise import Exercise, Prediction
from course_lib.checks.engine.local_backend import MAKING, LocalBackend, as_torch_starts
from course_lib.checks.engine.misconceptions import Misconception, PatchError, WrongNumber
from course_lib.checks.engine.probe import Probe
from course_lib.checks.engine.reply import (
    KERNEL_DIED,
    OUT_OF_TIME,
    RAISED_BY_NAME,
    Handle,
    Raised,
    Reply,
    Returned,
    Value,
)
from course_lib.student.stubs import UNWRITTEN

#: What a message is based on: misconceptions that explain all results, or the first wrong one, or facts.
Tier = Literal["exact", "partial", "structural", "numbers"]


@dataclass(frozen=True)
class Verdict:
    """The result of checking an exercise."""

    exercise: str
    probes: int
    """The number of probes that were run."""
    failures: tuple[Probe, ...] = ()
    """The probes that failed, in order."""
    difference: Difference | None = None
    """What differs in the first of them."""
    named: tuple[Misconception, ...] = ()
    """Misconceptions whose results equal the student's in every probe; empty if there are none."""
    similar: tuple[Misconception, ...] = ()
    """Misconceptions whose results equal the student's in the first failing probe, but not in all probes."""
    forbidden: tuple[str, ...] = ()
    """Functions that were called although the exercise does not allow them."""
    unwritten: str = ""
    """The stub's own message, if the exercise has not been started."""
    stopped: str = ""
    """OUT_OF_TIME or KERNEL_DIED, if the code did not return or its process ended."""

    @property
    def passed(self) -> bool:
        """Whether the answer is correct."""
        return not (self.failures or self.forbidden or self.unwritten)

    @property
    def tier(self) -> Tier:
        """The kind of diagnosis of a failure."""
        if self.named:
            return "exact"
        if self.similar:
            return "partial"
        structural = self.difference is None or self.difference.structural
        return "structural" if structural else "numbers"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one probe for one candidate."""

    observed: Value
    """The probe's result, which is compared."""
    replies: tuple[Reply, ...]
    """All replies of the candidate, in order."""


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Compute as if the notebook had set nothing, and with one thread: probes are too small to share out."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with as_torch_starts():
            yield
    finally:
        torch.set_num_threads(before)


@_undisturbed()
def examine(exercise: Exercise, backend: Backend, seed: str) -> Verdict:
    """Run every probe of an exercise on the backend's object, compare with the reference, and diagnose."""
    return _verdict(exercise, [_outcome(probe, backend, seed) for probe in exercise.probes], seed)


@_undisturbed()
def examine_version(exercise: Exercise, mistakes: tuple[Misconception, ...], seed: str) -> Verdict:
    """Examine the reference with these misconceptions in it, reusing what is known of that version."""
    version = _version(exercise, mistakes, seed)
    return _verdict(exercise, [version.outcome(number) for number in range(len(exercise.probes))], seed)


def _verdict(exercise: Exercise, found: Sequence[Outcome], seed: str) -> Verdict:
    count = len(exercise.probes)
    raised = [reply for outcome in found for reply in outcome.replies if isinstance(reply, Raised)]
    stub = next(
        (one for one in raised if one.kind == "NotImplementedError" and UNWRITTEN in one.message), None
    )
    if stub is not None and not stub.note:
        return Verdict(exercise.name, count, unwritten=stub.message)
    replies = (reply for outcome in found for reply in outcome.replies)
    used = dict.fromkeys(name for reply in replies if isinstance(reply, Returned) for name in reply.forbidden)
    reference = _version(exercise, (), seed)
    differences = {
        number: differs
        for number, probe in enumerate(exercise.probes)
        if (differs := _difference(probe, reference.outcome(number), found[number])) is not None
    }
    if not differences:
        return Verdict(exercise.name, count, forbidden=tuple(used))
    named, similar = _Search(exercise, found, differences.keys(), seed).explanation()
    kinds = {reply.kind for reply in raised}
    return Verdict(
        exercise.name,
        count,
        failures=tuple(exercise.probes[number] for number in differences),
        difference=next(iter(differences.values())),
        named=named,
        similar=similar,
        forbidden=tuple(used),
        stopped=next((kind for kind in (KERNEL_DIED, OUT_OF_TIME) if kind in kinds), ""),
    )


def examine_prediction(prediction: Prediction, backend: Backend) -> WrongNumber | str | None:
    """Return None for a correct answer, a known wrong one as such, or a sentence about any other."""
    reply = Candidate(backend).number()
    if isinstance(reply, Raised):
        return f"Expected a number, but reading it raised {reply.kind}: {reply.message}"
    number = reply.value
    if number is None:
        return "The answer is still None. Replace None by your number."
    if not isinstance(number, float):
        return f"Expected a number, got {describe(number)}."

    def near(goal: float) -> bool:
        return math.isclose(number, goal, rel_tol=prediction.tolerance)

    if near(prediction.answer):
        return None
    known = next((wrong for wrong in prediction.misconceptions if near(wrong.value)), None)
    return known or f"{number:g} is incorrect. {prediction.hint}"


def combinable(exercise: Exercise) -> Iterator[tuple[Misconception, Misconception]]:
    """Yield the pairs of an exercise's misconceptions that can be combined."""
    for pair in combinations(exercise.misconceptions, 2):
        try:
            exercise.with_mistakes(*pair)
        except (PatchError, SyntaxError):
            continue
        yield pair


#: At most so many misconceptions explain an answer together.
_MOST_COMBINED = 4

#: At most so many combinations are tried, to answer unknown mistakes in time. A time limit would instead
#: give the same answer different verdicts on different machines.
_MOST_TRIED = 400

#: So many of the most promising combinations are extended.
_WIDTH = 3

_Mistakes = tuple[Misconception, ...]


class _Search:
    """Find misconceptions that together give the student's results.

    Start from the first probe in which the student's result is wrong, find misconceptions that give the same
    there, apply them to the reference, and continue with the first probe that is still unexplained.
    """

    def __init__(
        self, exercise: Exercise, found: Sequence[Outcome], failing: Collection[int], seed: str
    ) -> None:
        self._exercise, self._found, self._failing, self._seed = exercise, found, failing, seed
        self._tried = 0

    def explanation(self) -> tuple[_Mistakes, _Mistakes]:
        """Return misconceptions that explain every probe, else some that explain the first failing one."""
        start = min(self._failing)
        frontier: list[tuple[int, _Mistakes]] = []
        for mistake in self._exercise.misconceptions:
            reached = self._explained((mistake,))
            if reached is None:
                return (mistake,), ()
            if reached > start:
                frontier.append((reached, (mistake,)))
        if not frontier:
            frontier = [(start, ())]
        best = max(frontier, key=lambda one: one[0])
        while frontier and len(frontier[0][1]) < _MOST_COMBINED:
            frontier = sorted(frontier, key=lambda one: -one[0])[:_WIDTH]
            extended: list[tuple[int, _Mistakes]] = []
            for at, mistakes in frontier:
                for more in self._extensions(at, mistakes):
                    reached = self._explained(more)
                    if reached is None:
                        return more, ()
                    if reached > at:
                        extended.append((reached, more))
            frontier = extended
            best = max([best, *frontier], key=lambda one: one[0])
        # Two misconceptions can also hide behind a third, which alone explains the first failing probe.
        for one, other in combinable(self._exercise):
            if self._explained((one, other)) is None:
                return (one, other), ()
        return (), best[1] if self._is_telling(start) else ()

    def _extensions(self, at: int, mistakes: _Mistakes) -> Iterator[_Mistakes]:
        """Yield larger combinations that give the student's result in the probe `at`: by one, else by two."""
        visible: list[Misconception] = []
        explained = False
        for mistake in self._exercise.misconceptions:
            more = self._combined(mistakes, mistake)
            if more is None or self._tried >= _MOST_TRIED:
                continue
            self._tried += 1
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
            if not more or self._tried >= _MOST_TRIED:
                continue
            self._tried += 1
            if self._alike(more, at):
                yield more

    def _combined(self, mistakes: _Mistakes, mistake: Misconception) -> _Mistakes | None:
        """Add a misconception, if it can be combined with the others."""
        if mistake in mistakes:
            return None
        order = self._exercise.misconceptions.index
        combined = tuple(sorted((*mistakes, mistake), key=order))
        try:
            self._exercise.with_mistakes(*combined)
        except (PatchError, SyntaxError):
            return None
        return combined

    def _explained(self, mistakes: _Mistakes) -> int | None:
        """Return the first probe in which these misconceptions give something else; None if there is none."""
        probes = range(len(self._exercise.probes))
        return next((number for number in probes if not self._alike(mistakes, number)), None)

    def _alike(self, mistakes: _Mistakes, number: int) -> bool:
        """Return whether the student's result in a probe is what these misconceptions give.

        If that is correct, the student's result only needs to be correct too. Else all replies must be the
        same, including the messages of exceptions.
        """
        probe, found = self._exercise.probes[number], self._found[number]
        reference = _version(self._exercise, (), self._seed).outcome(number)
        version = _version(self._exercise, mistakes, self._seed).outcome(number)
        if _difference(probe, reference, version) is None:
            return number not in self._failing
        return number in self._failing and _same(probe, version, found)

    def _differs(self, mistakes: _Mistakes, more: _Mistakes, number: int) -> bool:
        """Return whether the larger combination shows in a probe."""
        probe = self._exercise.probes[number]
        one = _version(self._exercise, mistakes, self._seed).outcome(number)
        other = _version(self._exercise, more, self._seed).outcome(number)
        return not _same(probe, one, other)

    def _is_telling(self, number: int) -> bool:
        """Return whether equal results in a probe are more than a coincidence."""
        return _weight(self._found[number].observed) >= 3


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


def _version(exercise: Exercise, mistakes: _Mistakes, seed: str) -> "_Version":
    """Return the reference with these misconceptions in it, with the outcomes that are known already."""
    key = (seed, *(mistake.name for mistake in mistakes))
    known: _Version | None = exercise.outcomes.get(key)
    # The reference is never slow. If it timed out, the machine was suspended, and that is no outcome to keep.
    if known is None or (not mistakes and known.stopped):
        known = _Version(exercise, exercise.with_mistakes(*mistakes), seed)
        exercise.outcomes[key] = known
    return known


class _Version:
    """A version of the reference. Each probe runs at most once, when its outcome is first needed."""

    def __init__(self, exercise: Exercise, version: object, seed: str) -> None:
        self._backend, self._probes, self._seed = LocalBackend(version), exercise.probes, seed
        self._outcomes: dict[int, Outcome] = {}

    @property
    def stopped(self) -> bool:
        """Whether it timed out."""
        return self._backend.stopped is not None

    def outcome(self, number: int) -> Outcome:
        """Return what a probe observes."""
        if number not in self._outcomes:
            self._outcomes[number] = _outcome(self._probes[number], self._backend, self._seed)
        return self._outcomes[number]


def _difference(probe: Probe, expected: Outcome, found: Outcome) -> Difference | None:
    difference = Comparison(probe.tolerance).difference(expected.observed, found.observed)
    if difference is None:
        return None
    values = (reply.value for reply in found.replies if isinstance(reply, Returned))
    return next(filter(None, map(returned_exception, values)), difference)


def _same(probe: Probe, one: Outcome, other: Outcome) -> bool:
    """Return whether two candidates replied the same to everything, including messages of exceptions."""
    comparison = Comparison(probe.tolerance, messages=True)
    return one is other or (
        comparison.difference(one.observed, other.observed) is None
        and comparison.difference(one.replies, other.replies) is None
    )


def _outcome(probe: Probe, backend: Backend, seed: str) -> Outcome:
    recorder = _Recorder(backend)
    observed = probe.run(Candidate(recorder), seed)
    # Handles count the objects of all probes so far. Count from this probe's first, so that outcomes compare.
    before = recorder.first - 1
    return Outcome(_relative(observed, before), tuple(_relative(reply, before) for reply in recorder.replies))


def _relative(value: Any, before: int) -> Any:
    if isinstance(value, Handle):
        return Handle(value.number - before) if value.number > before else value
    if isinstance(value, Returned):
        return replace(value, value=_relative(value.value, before))
    if isinstance(value, tuple):
        return tuple(_relative(item, before) for item in value)
    if isinstance(value, dict):
        return {key: _relative(item, before) for key, item in value.items()}
    return value


class _Recorder:
    """A backend that passes every request on to another, and keeps the replies."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.replies: list[Reply] = []
        self.first = 1
        """The number of the first object that was made."""

    def ask(self, request: Request) -> Reply:
        reply = self._backend.ask(request)
        if request.action in MAKING and isinstance(reply, Returned) and not self._made():
            self.first = reply.value.number
        self.replies.append(reply)
        return reply

    def _made(self) -> bool:
        return any(isinstance(reply, Returned) and isinstance(reply.value, Handle) for reply in self.replies)
