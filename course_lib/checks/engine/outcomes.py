"""Run a probe on a student's object or on the reference, and compare the outcomes."""

from dataclasses import dataclass, replace
from typing import Any

from course_lib.checks.engine.candidate import MAKING, Backend, Candidate, Request
from course_lib.checks.engine.comparison import (
    NO_ARGUMENTS,
    Arguments,
    Comparison,
    Difference,
    returned_exception,
)
from course_lib.checks.engine.probe import Probe
from course_lib.checks.engine.reply import FrozenList, Handle, Reply, Returned, Value


@dataclass(frozen=True)
class Outcome:
    """The outcome of one probe for one candidate."""

    observed: Value
    """The probe's result, which is compared."""
    replies: tuple[Reply, ...]
    """All replies of the candidate, in order."""
    requests: tuple[Request, ...]
    """The requests that the replies answer."""


def first_difference(
    probe: Probe, expected: Outcome, found: Outcome, arguments: Arguments = NO_ARGUMENTS
) -> Difference | None:
    """Return the first difference between the results in two outcomes of a probe, or None if they agree.

    If they differ and the code returned an exception instead of raising it, the difference describes that
    mistake instead. `arguments` are those of the probe's last call, for the description.
    """
    comparison = Comparison(probe.tolerance, arguments=arguments)
    difference = comparison.difference(expected.observed, found.observed)
    if difference is None:
        return None
    values = (reply.value for reply in found.replies if isinstance(reply, Returned))
    return next(filter(None, map(returned_exception, values)), difference)


def alike(probe: Probe, one: Outcome, other: Outcome) -> bool:
    """Return whether two outcomes of a probe agree in the result and in all replies, including messages.

    Dicts in the replies of `other` may have additional keys, because a student's module may register a weight
    under a second name.
    """
    if one is other:
        return True
    agree = Comparison(probe.tolerance, messages=True).agree
    return agree(one.observed, other.observed) and agree(one.replies, _common(one.replies, other.replies))


def _common(one: Any, other: Any) -> Any:
    """Return `other` without the dict keys that `one` lacks, including those nested in replies and tuples."""
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
        tuple(
            replace(one, of=_relative(one.of, before)) if one.of.number > before else one
            for one in recorder.requests
        ),
    )


def _unwarned(reply: Reply) -> Reply:
    """Return a reply without its warnings. A probe that checks warnings includes them in its result."""
    return replace(reply, warnings=()) if isinstance(reply, Returned) and reply.warnings else reply


#: The types of values that may be or contain handles. Other values, such as lists of numbers, are skipped.
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
