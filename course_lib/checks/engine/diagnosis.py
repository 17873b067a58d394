"""Check an exercise: run the probes, compare with the reference, find the mistakes that explain it."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch

from course_lib.checks.engine.candidate import Backend, Candidate, Request
from course_lib.checks.engine.comparison import Comparison, Difference, describe
from course_lib.checks.engine.exercise import Exercise, Prediction
from course_lib.checks.engine.local_backend import LocalBackend, as_torch_starts
from course_lib.checks.engine.misconceptions import Misconception, PatchError, WrongNumber
from course_lib.checks.engine.probe import Probe
from course_lib.checks.engine.reply import KERNEL_DIED, OUT_OF_TIME, Raised, Reply, Returned
from course_lib.student.stubs import UNWRITTEN


@dataclass(frozen=True)
class Verdict:
    """What a check found out."""

    exercise: str
    probes: int
    """How many things were tried."""
    failures: tuple[Probe, ...] = ()
    """The probes that failed, in their order."""
    difference: Difference | None = None
    """What differs in the first of them."""
    named: tuple[Misconception, ...] = ()
    """The mistakes that give the same as the student's code in every probe; none where no known one does."""
    forbidden: tuple[str, ...] = ()
    """Functions that were called although the exercise rules them out."""
    unwritten: str = ""
    """The stub's own message, where the exercise has not been begun."""
    stopped: str = ""
    """OUT_OF_TIME or KERNEL_DIED where the code did not come back, or ended its process."""

    @property
    def passed(self) -> bool:
        """Whether all is well."""
        return not (self.failures or self.forbidden or self.unwritten)


@dataclass(frozen=True)
class Outcome:
    """What one probe saw of one candidate."""

    observed: Any
    """What the probe handed back, to be compared."""
    replies: tuple[Reply, ...]
    """Everything that the candidate replied, in order."""


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
    """Run every probe of an exercise on what the backend holds, and say how it did."""
    return _verdict(exercise, [_outcome(probe, backend, seed) for probe in exercise.probes], seed)


@_undisturbed()
def examine_version(exercise: Exercise, mistakes: tuple[Misconception, ...], seed: str) -> Verdict:
    """Examine the reference with these mistakes in it; what its probes see is found out only once."""
    return _verdict(exercise, list(_known(exercise, mistakes, seed)), seed)


def _verdict(exercise: Exercise, found: Sequence[Outcome], seed: str) -> Verdict:
    expected = list(_known(exercise, (), seed))
    replies = [reply for outcome in found for reply in outcome.replies]
    count = len(exercise.probes)

    for reply in replies:
        if isinstance(reply, Raised) and reply.kind == "NotImplementedError" and UNWRITTEN in reply.message:
            return Verdict(exercise.name, count, unwritten=reply.message)
    used = dict.fromkeys(name for reply in replies if isinstance(reply, Returned) for name in reply.forbidden)
    differences = {
        probe: differs
        for probe, right, given in zip(exercise.probes, expected, found, strict=True)
        if (differs := _difference(probe, right, given)) is not None
    }
    if not differences:
        return Verdict(exercise.name, count, forbidden=tuple(used))
    first, named = next(iter(differences.values())), _explain(exercise, found, seed)
    kinds = {reply.kind for reply in replies if isinstance(reply, Raised)}
    stopped = next((kind for kind in (KERNEL_DIED, OUT_OF_TIME) if kind in kinds), "")
    return Verdict(exercise.name, count, tuple(differences), first, named, tuple(used), stopped=stopped)


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
    """Give the pairs of an exercise's misconceptions that can be made at the same time."""
    for pair in combinations(exercise.misconceptions, 2):
        try:
            exercise.with_mistakes(*pair)
        except (PatchError, SyntaxError):
            continue
        yield pair


def _explain(exercise: Exercise, found: Sequence[Outcome], seed: str) -> tuple[Misconception, ...]:
    """Find the misconception, or the pair, that gives the same as the student's code in every probe."""
    for mistake in exercise.misconceptions:
        if _first_unlike(exercise, (mistake,), found, seed) is None:
            return (mistake,)
    for pair in combinable(exercise):
        if _first_unlike(exercise, pair, found, seed) is None:
            return pair
    return ()


def _first_unlike(
    exercise: Exercise, mistakes: tuple[Misconception, ...], found: Sequence[Outcome], seed: str
) -> int | None:
    """Say in which probe these mistakes first give something else than the student's code; None if in none.

    One probe at a time: most mistakes differ at the first, and the others need not be run then.
    """
    known = _known(exercise, mistakes, seed)
    alike = map(_alike, exercise.probes, known, found)
    return next((number for number, same in enumerate(alike) if not same), None)


def _known(exercise: Exercise, mistakes: tuple[Misconception, ...], seed: str) -> "_Known":
    """Give the outcomes of the reference with these mistakes in it; with none, of the reference."""
    key = (seed, *(mistake.name for mistake in mistakes))
    there = exercise.outcomes.get(key)
    # The reference never takes long: where it did, the machine slept, and that is no outcome to compare with.
    if there is None or (not mistakes and there.stopped):
        exercise.outcomes[key] = _Known(exercise, exercise.with_mistakes(*mistakes), seed)
    known: _Known = exercise.outcomes[key]
    return known


class _Known:
    """The outcomes of one of the course's own versions, each found out once, when it is first asked for."""

    def __init__(self, exercise: Exercise, version: Any, seed: str) -> None:
        self._backend, self._probes, self._seed = LocalBackend(version), exercise.probes, seed
        self._there: list[Outcome] = []

    @property
    def stopped(self) -> bool:
        """Whether it did not come back in time."""
        return self._backend.stopped is not None

    def __iter__(self) -> Iterator[Outcome]:
        # No generator is kept: the student's interrupt would end it for good.
        for number, probe in enumerate(self._probes):
            if number == len(self._there):
                self._there.append(_outcome(probe, self._backend, self._seed))
            yield self._there[number]


def _difference(probe: Probe, expected: Outcome, found: Outcome) -> Difference | None:
    return Comparison(probe.tolerance).difference(expected.observed, found.observed)


def _alike(probe: Probe, one: Outcome, other: Outcome) -> bool:
    """Say whether two candidates gave the same to everything; exceptions, the same message too."""
    same = Comparison(probe.tolerance, messages=True)
    return one is other or (
        same.difference(one.replies, other.replies) is None
        and same.difference(one.observed, other.observed) is None
    )


def _outcome(probe: Probe, backend: Backend, seed: str) -> Outcome:
    recorder = _Recorder(backend)
    return Outcome(probe.run(Candidate(recorder), seed), tuple(recorder.replies))


class _Recorder:
    """A backend that passes everything on to another, and keeps what it replied."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.replies: list[Reply] = []

    def ask(self, request: Request) -> Reply:
        reply = self._backend.ask(request)
        self.replies.append(reply)
        return reply
