"""The reference of an exercise and its versions with mistakes, and the outcomes of probes for them."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

from course_lib.checks.engine.candidate import SECONDS
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.misconceptions import Misconception
from course_lib.checks.engine.outcomes import Outcome, outcome_of
from course_lib.checks.engine.reply import Raised

Mistakes = tuple[Misconception, ...]

#: The effort of a run and of each of its requests, in addition to its calls to torch functions.
_RUN, _REQUEST = 20, 25

#: The effort of compiling a version: a constant, plus 1 for every `_CHARACTERS` characters of source.
_COMPILING, _CHARACTERS = 20, 40

#: The effort of a call that times out. It uses up the budget of a search, so that a check waits for one only.
_TIMEOUT = round(SECONDS * 100_000)


class BrokenCheckError(RuntimeError):
    """The error raised if the check is at fault, not the answer: its reference fails, or it has a bug."""


def broken_check(name: str, problem: str) -> BrokenCheckError:
    """Return the error that reports a problem of the check called `name`. `problem` is a clause."""
    return BrokenCheckError(
        f"The check of {name} could not run: {problem}. This is an error in the course, not in your code. "
        "Run the cell again; if it fails again, report it."
    )


@dataclass
class _Version:
    """A version of the reference, with the outcomes known so far.

    The outcomes don't include the requests, whose arguments would take much memory.
    """

    found: Any
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    efforts: dict[int, int] = field(default_factory=dict)
    """The effort of each probe, which is only used for the reference: other calls aren't counted."""
    stopped: Raised | None = None
    """The timeout of an earlier probe, after which the version is not run again."""


@cache
def compiled(exercise: ExerciseCheck, mistakes: Mistakes) -> Any:
    """Return the reference with these mistakes applied. It is compiled only once.

    Raises the same exceptions as `ExerciseCheck.with_mistakes`.
    """
    return exercise.with_mistakes(*mistakes)


@lru_cache(maxsize=16)  # more than a lesson has exercises
def known_versions(exercise: ExerciseCheck, seed: str) -> dict[Mistakes, _Version]:
    """Return the cache of the versions of an exercise that have been run with a seed.

    It is empty at first. All checks of the exercise in this process share it.
    """
    return {}


class Versions:
    """The reference of an exercise and its versions with mistakes, for one seed.

    Each probe runs at most once for a version, when its outcome is first needed.
    """

    def __init__(self, exercise: ExerciseCheck, seed: str) -> None:
        self._exercise, self._seed = exercise, seed
        self._known = known_versions(exercise, seed)
        self.effort = 0
        """The effort of compiling versions and running probes so far, in calls to torch functions."""
        self._timed_out: dict[Mistakes, _Version] = {}
        """Versions that timed out. Other checks run them again: the machine may have been suspended."""
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
                self._known.pop((), None)
                test = self._exercise.probes[number].description
                raise broken_check(
                    self._exercise.name,
                    f"its reference raised {reply.kind} ({reply.message}) in the test “{test}”",
                )
        return outcome

    def outcome(self, mistakes: Mistakes, number: int) -> Outcome:
        """Return the outcome of probe `number` for the reference with these mistakes.

        Raises PatchError or SyntaxError if the mistakes can't be applied together, and BrokenCheckError if
        the reference itself fails.
        """
        version = self._timed_out.get(mistakes) or self._known.get(mistakes)
        if version is None:
            version = self._known[mistakes] = _Version(compiled(self._exercise, mistakes))
        if mistakes:
            self._count_effort(self._counted[mistakes], number)
        if number not in version.outcomes:
            # Use a new backend for each probe: it keeps all objects that a probe has built.
            backend = LocalBackend(version.found, count_calls=not mistakes)
            backend.stopped = version.stopped
            outcome = outcome_of(self._exercise.probes[number], backend, self._seed)
            version.outcomes[number] = replace(outcome, requests=())
            version.efforts[number] = _RUN + _REQUEST * len(outcome.requests) + backend.calls
            version.stopped = backend.stopped
            if mistakes and version.stopped and self._known.pop(mistakes, None):
                self._timed_out[mistakes] = version
                self.effort += _TIMEOUT
        return version.outcomes[number]

    def _count_effort(self, counted: set[int], number: int) -> None:
        """Count the effort of probe `number` and of compiling the version, unless they are already counted.

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
        return self._known[()].efforts[number] + self._exercise.uncounted
