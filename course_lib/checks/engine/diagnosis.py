"""Check an exercise: run its probes, compare the results with the reference's, and explain failures."""

import gc
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

import torch

from course_lib.checks.engine.candidate import CALLING, STUDENT_OBJECT, Backend, Request
from course_lib.checks.engine.comparison import (
    GRADIENTS_ARE_CUT,
    Arguments,
    Comparison,
    Difference,
)
from course_lib.checks.engine.example import Example, example
from course_lib.checks.engine.exceptions import named
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.findings import VerdictName
from course_lib.checks.engine.local_backend import as_torch_starts
from course_lib.checks.engine.misconceptions import Misconception, special_misconception
from course_lib.checks.engine.outcomes import Outcome, first_difference, outcome_of
from course_lib.checks.engine.probe import Probe
from course_lib.checks.engine.relations import relation
from course_lib.checks.engine.reply import (
    KERNEL_DIED,
    LEFTOVER_STUB,
    OUT_OF_TIME,
    RAISED_BY_NAME,
    Raised,
    Reply,
    Returned,
)
from course_lib.checks.engine.search import Explanation, Resemblance, Search
from course_lib.checks.engine.versions import Versions
from course_lib.curriculum.stubs import UNWRITTEN

#: The evidence for a message: misconceptions that explain all results ("exact") or some of them ("partial"),
#: facts about a result ("structural"), or only that numbers differ.
Tier = Literal["exact", "partial", "structural", "numbers"]

#: The kinds of `Raised` after which the student's code no longer runs, and their verdicts.
_STOPPED: Mapping[str, VerdictName] = {KERNEL_DIED: "kernel-died", OUT_OF_TIME: "out-of-time"}


@dataclass(frozen=True)
class Verdict:
    """The result of checking an exercise."""

    exercise: ExerciseCheck
    failures: tuple[Probe, ...] = ()
    """The probes that failed, in order."""
    difference: Difference | None = None
    """The difference in the first failing probe."""
    facts: tuple[str, ...] = ()
    """More sentences, for example on how the first failing probe's result relates to the expected one."""
    explanation: Explanation = field(default_factory=Explanation)
    """Known misconceptions that explain the failures; empty if there are none."""
    example: Example | None = None
    """A small call to try, if nothing else explains the difference."""
    printed: str = ""
    """The printed output of the student's code in the first failing probe."""
    forbidden: tuple[str, ...] = ()
    """Functions that were called although the exercise does not allow them."""
    unwritten: str = ""
    """The stub's own message, if the exercise has not been started."""
    stopped: str = ""
    """OUT_OF_TIME if the code did not return in time, KERNEL_DIED if its process ended; otherwise empty."""

    @property
    def passed(self) -> bool:
        """Whether the exercise is written, all probes succeeded and no forbidden function was called."""
        return not (self.failures or self.forbidden or self.unwritten)

    @property
    def name(self) -> VerdictName:
        """The name of this verdict in findings."""
        if self.passed:
            return "right"
        if self.unwritten:
            return "unwritten"
        if self.difference is None:
            return "forbidden"
        return _STOPPED.get(self.stopped, "wrong")

    @property
    def successes(self) -> list[Probe]:
        """The probes that succeeded, in order."""
        return [probe for probe in self.exercise.probes if probe not in self.failures]

    @property
    def tier(self) -> Tier:
        """The kind of evidence on which the diagnosis of a failure is based."""
        if self.explanation.named:
            return "exact"
        if self.explanation.similar:
            return "partial"
        structural = self.difference is None or self.difference.structural or self.facts
        return "structural" if structural else "numbers"


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Use one thread and torch's default settings, such as the default dtype, during the block.

    Probes are too small to benefit from more threads. A garbage collection of the oldest generation can take
    as long as a whole check, so there is none during the block.
    """
    threads, thresholds = torch.get_num_threads(), gc.get_threshold()
    torch.set_num_threads(1)
    gc.set_threshold(*thresholds[:2], 2**31 - 1)
    try:
        with as_torch_starts():
            yield
    finally:
        _close_process_group()
        gc.set_threshold(*thresholds)
        torch.set_num_threads(threads)


def _close_process_group() -> bool:
    """Close the process group if other code has left one open. Return whether there was one."""
    is_open = torch.distributed.is_available() and torch.distributed.is_initialized()
    if is_open:
        torch.distributed.destroy_process_group()
    return is_open


@_undisturbed()
def examine(exercise: ExerciseCheck, backend: Backend, seed: str) -> Verdict:
    """Run every probe on the backend's object and on the reference, and compare and diagnose the results.

    `seed` determines the random inputs of the probes. Raises BrokenCheckError if the reference itself fails.
    """
    found = [outcome_of(probe, backend, seed) for probe in exercise.probes]
    was_open = _close_process_group()  # An open group would prevent the reference from opening its own.
    replies = [reply for outcome in found for reply in outcome.replies]
    raised = [reply for reply in replies if isinstance(reply, Raised)]
    stub = next(
        (one for one in raised if one.kind == "NotImplementedError" and UNWRITTEN in one.message), None
    )
    if stub is not None and not stub.note:
        return Verdict(exercise, unwritten=stub.message)
    used = dict.fromkeys(name for reply in replies if isinstance(reply, Returned) for name in reply.forbidden)
    versions = Versions(exercise, seed)
    arguments = [_arguments(exercise, outcome) for outcome in found]
    differences = {}
    for number, probe in enumerate(exercise.probes):
        difference = first_difference(probe, versions.reference(number), found[number], arguments[number])
        if difference is not None:
            differences[number] = difference
    if not differences:
        return Verdict(exercise, forbidden=tuple(used))
    first, difference = next(iter(differences.items()))
    explanation = _explanation(exercise, versions, found, differences)
    facts = _facts(versions.reference(first), found[first], difference, arguments[first])
    only_gradients = all(
        each.gradient and not any(isinstance(reply, Raised) for reply in found[number].replies)
        for number, each in differences.items()
    )
    if only_gradients and not explanation.named:
        causes = "" if difference.gradient == "missing" else f" {GRADIENTS_ARE_CUT}"
        facts = (*facts, f"Your code passes all tests except those for gradients.{causes}")
    kinds = {reply.kind for reply in raised}
    if not explanation.named and not kinds & _STOPPED.keys() and not was_open:
        again = outcome_of(exercise.probes[first], backend, seed)
        kept, explains_all = "", False
        # If the repeated probe succeeds, it would also succeed without the values of earlier calls.
        if first_difference(exercise.probes[first], versions.reference(first), again) is not None:
            kept, explains_all = _kept_values(exercise, backend, seed, versions, differences)
        if kept and explains_all:
            mistake = special_misconception("kept")
            explanation = Explanation((replace(mistake, hint=f"{kept} {mistake.hint}"),))
        elif kept:
            facts = (*facts, kept)
        if not kept and _changes_when_repeated(exercise.probes[first], found[first], again):
            facts = (*facts, _CHANGES)
    unexplained = not (explanation.named or explanation.similar or facts or difference.structural)
    failed = [found[number] for number in differences]
    return Verdict(
        exercise,
        failures=tuple(exercise.probes[number] for number in differences),
        difference=difference,
        facts=facts,
        explanation=explanation,
        example=example(exercise, backend, failed) if unexplained else None,
        printed="".join(reply.printed for reply in found[first].replies),
        forbidden=tuple(used),
        stopped=next((kind for kind in _STOPPED if kind in kinds), ""),
    )


@_undisturbed()
def succeeds(exercise: ExerciseCheck, backend: Backend, seed: str) -> bool:
    """Return whether the backend's object passes every probe, without a diagnosis if it doesn't."""
    versions = Versions(exercise, seed)
    for number, probe in enumerate(exercise.probes):
        found = outcome_of(probe, backend, seed)
        _close_process_group()
        if first_difference(probe, versions.reference(number), found) is not None:
            return False
    return True


def _explanation(
    exercise: ExerciseCheck,
    versions: Versions,
    found: Sequence[Outcome],
    differences: Mapping[int, Difference],
) -> Explanation:
    failed = [found[number].replies for number in differences]
    if all(
        any(isinstance(one, Raised) and one.note == LEFTOVER_STUB for one in replies) for replies in failed
    ):
        return Explanation((special_misconception("stub"),))
    causes = {
        number: _cause(exercise.probes[number], versions.reference(number), found[number])
        for number in differences
    }
    known = tuple(dict.fromkeys(cause for cause in causes.values() if cause is not None))
    certain = None not in causes.values() and len(known) <= _MAX_CAUSES
    # A single misconception explains more than an exception, but a combination rarely does. So if exceptions
    # already show the causes with certainty, don't search for combinations.
    explanation = Search(exercise, versions, found, differences).explanation(combine=not certain)
    first = min(causes)
    if explanation.named:
        # The message shows the first failing probe, so begin with the mistakes that alone make it fail.
        probe, right = exercise.probes[first], versions.reference(first)

        def passes(mistake: Misconception) -> bool:
            return first_difference(probe, right, versions.outcome((mistake,), first)) is None

        # An exception can have many causes, unless its class and message leave no doubt.
        is_known = set(explanation.named) <= set(exercise.misconceptions)
        by_error = (
            is_known
            and not certain
            and all(
                any(_unexpected_errors(versions.reference(number), found[number])) for number in differences
            )
        )
        return Explanation(tuple(sorted(explanation.named, key=passes)), named_by_error=by_error)
    if certain:
        return Explanation(known)
    if explanation.similar is None and (cause := causes[first]) is not None:
        other = next(number for number in causes if causes[number] != cause)
        others = sum(causes[number] == cause for number in causes) - 1
        probes = exercise.probes
        similar = Resemblance((cause,), probes[first], others=others, unexplained=probes[other])
        return Explanation(similar=similar)
    return explanation


def _kept_values(
    exercise: ExerciseCheck,
    backend: Backend,
    seed: str,
    versions: Versions,
    differences: Mapping[int, Difference],
) -> tuple[str, bool]:
    """Find the variables and attributes whose values of earlier calls make the probes fail.

    If the first failed probe succeeds when each call starts without their values, return a sentence that
    names them, and whether all failed probes succeed.
    """

    def successes(*only: str) -> tuple[int, list[str]]:
        """Return how many of the first failed probes succeed, and the names of what the calls have left."""
        backend.ask(Request("forget", STUDENT_OBJECT, (True, *only)))
        count = 0
        for number in differences:
            outcome = outcome_of(exercise.probes[number], backend, seed)
            _close_process_group()
            if first_difference(exercise.probes[number], versions.reference(number), outcome) is not None:
                break
            count += 1
        reply = backend.ask(Request("forget", STUDENT_OBJECT, (False,)))
        kept = reply.value if isinstance(reply, Returned) else ()
        # The student's process chooses the names, so they can be anything.
        return count, [name for name in kept if isinstance(name, str) and _NAME.fullmatch(name)]

    count, names = successes()
    if not count:
        return "", False
    # Emptying other variables, such as constants, may have been the reason. So reset only these.
    for only in (*((name,) for name in names[:_MAX_CAUSES]), tuple(names)):
        if only and (count := successes(*only)[0]):
            explains_all = count == len(differences)
            tests = "all failed tests pass" if explains_all and count > 1 else "this test passes"
            listed = " and ".join(f"`{name}`" for name in only)
            sentence = f"Your code keeps values in {listed} from one call to the next."
            return f"{sentence} If each call starts without them, {tests}.", explains_all
    return "", False


_NAME = re.compile(r"[\w.]{1,60}")


def _changes_when_repeated(probe: Probe, found: Outcome, again: Outcome) -> bool:
    """Return whether the code runs to its end but returns a different result when a probe is repeated."""
    ended = any(isinstance(reply, Raised) and reply.kind in _STOPPED for reply in again.replies)
    return not ended and first_difference(probe, found, again) is not None


#: The fact about code that returns a different result when a probe is repeated.
_CHANGES = (
    "When this test is repeated, your code gives a different result. Does it change a global variable or a "
    "default argument, draw random numbers, loop over a set, or read numbers from `torch.empty` that it "
    "hasn't written?"
)

#: The maximum number of causes that are named together.
_MAX_CAUSES = 3


def _cause(probe: Probe, expected: Outcome, found: Outcome) -> Misconception | None:
    """Return a mistake that can occur in any exercise and certainly explains a wrong outcome, or None."""
    error = next(_unexpected_errors(expected, found), None)
    if error is not None:
        return named(error)
    if len(expected.replies) != len(found.replies):
        return None
    agree = Comparison(probe.tolerance).agree
    pairs = zip(expected.replies, found.replies, strict=True)
    wrong = [(right, actual) for right, actual in pairs if not agree(right, actual)]
    selections = (0, 1, slice(None, -1))
    if wrong and any(all(agree(right, _part(actual, one)) for right, actual in wrong) for one in selections):
        return special_misconception("more")
    return None


def _unexpected_errors(expected: Outcome, found: Outcome) -> Iterator[Raised]:
    """Yield the exceptions of an outcome that the reference doesn't raise."""
    for right, actual in zip(expected.replies, found.replies, strict=False):
        if isinstance(actual, Raised) and not (isinstance(right, Raised) and right.kind == actual.kind):
            yield actual


def _part(reply: Reply, parts: int | slice) -> Reply:
    """Replace the tuple in a reply with the item or items that the index or slice `parts` selects.

    A reply without a tuple of at least two items is returned unchanged.
    """
    if isinstance(reply, Returned) and isinstance(reply.value, tuple) and len(reply.value) > 1:
        return replace(reply, value=reply.value[parts])
    return reply


def _arguments(exercise: ExerciseCheck, outcome: Outcome) -> Arguments:
    """Return the arguments of the last call in an outcome. Calls without arguments don't count.

    Their names are known only if all calls are to the student's function, or to the same method of the
    student's class.
    """
    calls = [request for request in outcome.requests if request.action in CALLING and request.arguments]
    if not calls:
        return Arguments()
    made = {
        reply.value
        for request, reply in zip(outcome.requests, outcome.replies, strict=True)
        if request.action in ("build", "copy") and isinstance(reply, Returned)
    }
    is_class = isinstance(exercise.reference, type)
    own = all(call.of in made if is_class else call.of == STUDENT_OBJECT for call in calls)
    method = calls[-1].method
    if not own or any(call.method != method for call in calls):
        return Arguments(calls[-1].arguments)
    called = exercise.reference
    if is_class:
        is_module = issubclass(called, torch.nn.Module)
        called = getattr(called, "forward" if is_module and method == "__call__" else method)
    names = tuple(
        each.name
        for each in inspect.signature(called).parameters.values()
        if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    )
    return Arguments(calls[-1].arguments, names[1:] if is_class else names)


def _facts(
    expected: Outcome, found: Outcome, difference: Difference, arguments: Arguments
) -> tuple[str, ...]:
    """Return a sentence on how a result relates to the expected one, and one on a call.

    The second sentence describes valid arguments that the student's code rejects, or reports a number of
    calls to a fixture that isn't the expected one. Either sentence is omitted if there is nothing to report.
    """
    facts: list[str] = []
    wholes = (expected.observed, found.observed)
    if not any(isinstance(whole, Raised) for whole in wholes):
        pairs = [pair for pair in (difference.values, wholes) if pair is not None]
        facts += [fact for pair in pairs if (fact := relation(*pair, arguments))][:1]
    working = {STUDENT_OBJECT}
    for right, actual, request in zip(expected.replies, found.replies, found.requests, strict=False):
        if isinstance(right, Returned) and isinstance(actual, Raised) and actual.note == RAISED_BY_NAME:
            # If a constructor failed, the first request to the object returns the failure.
            if request.action in CALLING and request.of in working:
                given = replace(arguments, values=request.arguments).described()
                facts += [given] if given else []
            break
        if isinstance(actual, Returned):
            working.add(request.of)
        if isinstance(right, Returned) and isinstance(actual, Returned) and right.called != actual.called:
            name, times = (*actual.called, *right.called)[0], len(actual.called)
            known = {0: f"never calls the {name}", 1: f"calls the {name}", 2: f"calls the {name} twice"}
            calls = known.get(times, f"calls the {name} {times} times")
            needed = {0: "no call", 1: "one call"}.get(len(right.called), f"{len(right.called)} calls")
            facts.append(f"Your code {calls}; {needed} is expected.")
            break
    return tuple(facts)
