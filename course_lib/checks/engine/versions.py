"""Run probes on the reference, on the reference with mistakes in it, and on a student's object."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from course_lib.checks.engine.candidate import Backend, Candidate, Request
from course_lib.checks.engine.comparison import (
    NO_ARGUMENTS,
    Arguments,
    Comparison,
    Difference,
    returned_exception,
)
from course_lib.checks.engine.exercise import Exercise
from course_lib.checks.engine.local_backend import MAKING, LocalBackend
from course_lib.checks.engine.misconceptions import Misconception
from course_lib.checks.engine.probe import Probe
from course_lib.checks.engine.reply import FrozenList, Handle, Raised, Reply, Returned, Value

Mistakes = tuple[Misconception, ...]

#: The effort of a run and of each of its requests, in addition to its calls to torch functions.
_RUN, _REQUEST = 20, 25

#: The effort of compiling a version: a constant, plus 1 for every `_CHARACTERS` characters of source.
_COMPILING, _CHARACTERS = 20, 40


class BrokenCheckError(RuntimeError):
    """The error raised if the check is at fault, not the answer: its reference fails, or it has a bug."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one probe for one candidate."""

    observed: Value
    """The probe's result, which is compared."""
    replies: tuple[Reply, ...]
    """All replies of the candidate, in order."""
    requests: tuple[Request, ...]
    """The requests that the replies answer."""


class Versions:
    """The reference of an exercise and its versions with mistakes, for one seed.

    Each probe runs at most once for a version, when its outcome is first needed.
    """

    def __init__(self, exercise: Exercise, seed: str) -> None:
        self._exercise, self._seed = exercise, seed
        self.effort = 0
        """The effort of compiling versions and running probes so far, in calls to torch functions."""
        self._timed_out: dict[Mistakes, _Version] = {}
        """Versions that took too long. No other check uses them: a suspended machine can cause that once."""
        self._counted: defaultdict[Mistakes, set[int]] = defaultdict(set)
        """The probes whose effort has been counted, by version."""

    def reference(self, number: int) -> Outcome:
        """Return the outcome of probe `number` for the reference.

        Raises BrokenCheckError if the reference raises any exception other than ValueError.
        """
        outcome = self.outcome((), number)
        for reply in outcome.replies:
            if isinstance(reply, Raised) and reply.kind != "ValueError":
                # Don't cache the outcome: a suspended machine can cause a timeout once.
                self._exercise.outcomes.pop((self._seed, ()), None)
                raise BrokenCheckError(
                    f"The check of {self._exercise.name} could not run: its reference raised {reply.kind} "
                    f"({reply.message}) in the test “{self._exercise.probes[number].description}”. This is "
                    "an error in the course, not in your code. Run the cell again; if it fails again, report "
                    "it."
                )
        return outcome

    def outcome(self, mistakes: Mistakes, number: int) -> Outcome:
        """Return the outcome of probe `number` for the reference with these mistakes.

        Raises PatchError or SyntaxError if the mistakes can't be applied together, and BrokenCheckError if
        the reference itself fails.
        """
        key = (self._seed, mistakes)
        version: _Version | None = self._timed_out.get(mistakes) or self._exercise.outcomes.get(key)
        if version is None:
            version = _Version(
                LocalBackend(self._exercise.with_mistakes(*mistakes), count_calls=not mistakes)
            )
            self._exercise.outcomes[key] = version
        if mistakes:
            self._count_effort(self._counted[mistakes], number)
        if number not in version.outcomes:
            before = version.backend.calls
            version.outcomes[number] = outcome_of(self._exercise.probes[number], version.backend, self._seed)
            version.costs[number] = version.backend.calls - before
            if mistakes and version.backend.stopped and self._exercise.outcomes.pop(key, None):
                self._timed_out[mistakes] = version
        return version.outcomes[number]

    def _count_effort(self, counted: set[int], number: int) -> None:
        """Count the effort of probe `number` and of compiling the version, unless they are counted already.

        Results from an earlier check count at full cost, so that a verdict doesn't depend on earlier checks.
        """
        if not counted:
            self.effort += _COMPILING + len(self._exercise.source) // _CHARACTERS
        if number not in counted:
            counted.add(number)
            self.effort += self.cost(number)

    def cost(self, number: int) -> int:
        """Estimate the effort of running probe `number` on any version, based on a run on the reference.

        Raises BrokenCheckError if the reference fails.
        """
        self.reference(number)
        reference: _Version = self._exercise.outcomes[self._seed, ()]
        outcome = reference.outcomes[number]
        return _RUN + _REQUEST * len(outcome.requests) + reference.costs[number] + self._exercise.uncounted


@dataclass
class _Version:
    """A version of the reference, with the outcomes known so far."""

    backend: LocalBackend
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    costs: dict[int, int] = field(default_factory=dict)
    """The calls to torch functions in each probe, which are only counted for the reference."""


def first_difference(
    probe: Probe, expected: Outcome, found: Outcome, arguments: Arguments = NO_ARGUMENTS
) -> Difference | None:
    """Return the first difference between the results in two outcomes of a probe, or None if they agree.

    If they differ and the code returned an exception instead of raising it, the difference is about that.
    `arguments` are those of the probe's calls.
    """
    comparison = Comparison(probe.tolerance, arguments=arguments)
    difference = comparison.difference(expected.observed, found.observed)
    if difference is None:
        return None
    values = (reply.value for reply in found.replies if isinstance(reply, Returned))
    return next(filter(None, map(returned_exception, values)), difference)


def alike(probe: Probe, one: Outcome, other: Outcome) -> bool:
    """Return whether two outcomes of a probe agree in the result and in all replies, including messages.

    If a reply holds names, such as those of weights, `other` may have more of them than `one`: a student's
    module may have weights under a second name.
    """
    if one is other:
        return True
    agree = Comparison(probe.tolerance, messages=True).agree
    return agree(one.observed, other.observed) and agree(one.replies, _common(one.replies, other.replies))


def _common(one: Any, other: Any) -> Any:
    """Remove the names from `other` that `one` doesn't have, in replies and in dicts inside of them."""
    if isinstance(one, Returned) and isinstance(other, Returned):
        return replace(other, value=_common(one.value, other.value))
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: _common(one[name], value) for name, value in other.items() if name in one}
    if type(one) is tuple and type(other) is tuple and len(one) == len(other):
        return tuple(map(_common, one, other))
    return other


def outcome_of(probe: Probe, backend: Backend, seed: str) -> Outcome:
    """Run a probe on a backend's object with random inputs drawn from `seed`, and return the outcome."""
    recorder = _Recorder(backend)
    observed = probe.run(Candidate(recorder), seed)
    # Handles count the objects of all probes so far. Renumber them for this probe, so outcomes can be
    # compared.
    before = (recorder.first or 1) - 1
    return Outcome(
        _relative(observed, before),
        tuple(_relative(_unwarned(reply), before) for reply in recorder.replies),
        tuple(replace(one, of=_relative(one.of, before)) for one in recorder.requests),
    )


def _unwarned(reply: Reply) -> Reply:
    """Return a reply without its warnings. Where these count, they are also in the result of the probe."""
    return replace(reply, warnings=()) if isinstance(reply, Returned) and reply.warnings else reply


#: The types of values that may be or contain handles. Long lists of numbers need not be searched for them.
_MAY_HOLD_HANDLES = frozenset({Handle, Returned, tuple, FrozenList, dict})


def _relative(value: Any, before: int) -> Any:
    if isinstance(value, Handle):
        return Handle(value.number - before) if value.number > before else value
    if isinstance(value, Returned):
        inner = _relative(value.value, before)
        return value if inner is value.value else replace(value, value=inner)
    if isinstance(value, tuple):
        if not _MAY_HOLD_HANDLES.isdisjoint(map(type, value)):
            return type(value)(_relative(item, before) for item in value)
        return value
    if isinstance(value, dict):
        return {key: _relative(item, before) for key, item in value.items()}
    return value


class _Recorder(Backend):
    """A backend that forwards every request to another backend, and records the requests and the replies."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.requests: list[Request] = []
        self.replies: list[Reply] = []
        self.first: int | None = None
        """The number of the handle of the first object that the probe created, if there is one."""

    def ask(self, request: Request) -> Reply:
        reply = self._backend.ask(request)
        if request.action in MAKING and isinstance(reply, Returned) and self.first is None:
            self.first = reply.value.number
        self.requests.append(request)
        self.replies.append(reply)
        return reply
