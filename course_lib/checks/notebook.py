"""The function that a notebook's check cells call."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict, cast

from torch import Tensor

from course_lib import check_log
from course_lib.checks.engine import messages
from course_lib.checks.engine.candidate import Backend
from course_lib.checks.engine.comparison import Difference
from course_lib.checks.engine.diagnosis import examine, succeeds
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.findings import Finding, emit
from course_lib.checks.engine.kept_values import names_used
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.misconceptions import WrongNumber
from course_lib.checks.engine.prediction import UNANSWERED, PredictionCheck, examine_prediction
from course_lib.checks.engine.versions import BrokenCheckError, broken_check
from course_lib.checks.exercises.final_lab.hand_in import FileCheck, Levels, judge_file
from course_lib.checks.exercises.registry import Check, catalogue, find

_PRACTICE_SEED = "practice"


class CheckError(AssertionError):
    """The error raised by a failed check. A notebook shows the message without a traceback."""

    exercise = ""
    """The name of the check."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints instead of a traceback."""
        return str(self).split("\n")


class GradingOptions(TypedDict):
    """The grading options of a check, which only an instructor's copy of a check cell contains."""

    points: float
    """The points for a correct answer."""
    seed: int
    """The seed of the inputs, which differ from those that students see."""
    costs: NotRequired[Mapping[str, float]]
    """The points that each misconception costs, by name. Any other failure costs all points."""


def check(
    name: str,
    names: Mapping[str, object],
    *,
    may_not_call: Sequence[str] = (),
    levels: Levels | None = None,
    grading: GradingOptions | None = None,
) -> float | None:
    """Check a student's code for an exercise, the answer to a prediction, or a file to submit.

    `names` holds the student's objects: in a notebook, `globals()`. Prints a message if the answer is correct
    or is a file that earns some of the points. Otherwise raises a CheckError whose message says what is
    wrong. If tensors with two or more axes differ, a picture shows the result next to the expected one.
    `may_not_call` names torch functions that would solve the whole exercise; an answer that calls one of them
    fails. For a file to submit, `levels` holds the BLEU thresholds of each corpus with their points, and the
    notebook's folder is searched instead of `names`.

    Raises BrokenCheckError if the reference fails or the check has a bug, so that a broken check never passes
    an answer or reports it as wrong, and ValueError if there is no check called `name`.

    With `grading`, which only an instructor's copy of a check cell contains, the check draws different random
    inputs. For a partly correct answer, it prints the message and returns the points that the answer earns.
    For a correct one it returns None, which nbgrader counts as all points.

    Without `grading`, the result is also written to the student's own log if they have turned it on.
    """
    entry = find(name)
    try:
        result = _result(entry, names, may_not_call, levels or {}, grading)
    except Exception as error:
        _record(Finding(name, "error"), names, grading)
        if isinstance(error, BrokenCheckError):
            raise
        raise broken_check(name, f"it raised {type(error).__name__} ({error})") from error
    _record(result.finding, names, grading)
    if result.difference is not None:
        _show(result.difference)
    if result.points == 0:
        failed = CheckError(result.message)
        failed.exercise = name
        raise failed
    print(result.message)
    return result.points if grading else None


@dataclass(frozen=True)
class _Result:
    finding: Finding
    message: str
    points: float | None = None
    """The points earned: None for all of them, 0 for a failure. Other numbers matter only with grading."""
    difference: Difference | None = None
    """The difference to draw, if there is one."""


def _record(finding: Finding, names: Mapping[str, object], grading: GradingOptions | None) -> None:
    emit(finding)
    if grading is None:
        check_log.append(finding.name, finding.verdict, finding.misconceptions, names.get(finding.name))


def _result(
    entry: Check,
    names: Mapping[str, object],
    may_not_call: Sequence[str],
    levels: Levels,
    grading: GradingOptions | None,
) -> _Result:
    if isinstance(entry, FileCheck):
        return _result_of_file(entry, levels, grading)
    if entry.name not in names:
        others = [name for name in names if not name.startswith("_") and name not in catalogue()]
        return _failure(Finding(entry.name, "missing"), messages.missing(entry.name, others), grading)
    found = names[entry.name]
    # `isinstance` would ask the object for its class, which runs a student's `__getattribute__`.
    is_backend = issubclass(type(found), Backend)
    backend = cast(Backend, found) if is_backend else LocalBackend(found, tuple(may_not_call))
    if isinstance(entry, PredictionCheck):
        return _result_of_prediction(entry, backend, grading)
    if not is_backend and not callable(found):
        what = f"`{entry.name}` is an object of type {type(found).__name__}, not a function or a class."
        message = messages.line("✗", entry.name, f"{what} Run the cell that defines it again.")
        return _failure(Finding(entry.name, "wrong"), message, grading)
    return _result_of_exercise(entry, backend, grading, {} if grading or is_backend else names)


def _result_of_exercise(
    exercise: ExerciseCheck, backend: Backend, grading: GradingOptions | None, names: Mapping[str, object]
) -> _Result:
    """Check an exercise. `names` holds the student's objects that can be blamed for a failure."""
    verdict = examine(exercise, backend, f"graded {grading['seed']}" if grading else _PRACTICE_SEED)
    named = verdict.explanation.named
    misconceptions = tuple(mistake.name for mistake in named)
    statements = tuple(mistake.statement for mistake in named)
    finding = Finding(exercise.name, verdict.name, misconceptions, statements, verdict.forbidden)
    if verdict.passed:
        correct = f"correct: all {len(exercise.probes)} tests passed."
        if names.get(exercise.name) is exercise.reference:
            correct += " But this is the course's own code, which earns no points. Write yours."
        return _Result(finding, messages.line("✓", exercise.name, correct))
    # If the code timed out, don't check its parts: each of them may time out, too.
    wrong_parts = () if verdict.unwritten or verdict.stopped else _wrong_parts(exercise.name, names)
    message = messages.failure(verdict, wrong_parts, _variables_used(exercise.name, names))
    return _failure(finding, message, grading, verdict.difference)


def _wrong_parts(name: str, names: Mapping[str, object]) -> list[str]:
    """Return the names of the student's other solutions that an answer uses and that fail their own checks.

    The result is empty if they can't be determined.
    """
    with contextlib.suppress(Exception):  # The verdict is correct without this information.
        used = names_used(names.get(name))
        return [
            part.name
            for part in catalogue().values()
            if isinstance(part, ExerciseCheck) and part.name in used - {name} and part.name in names
            if names[part.name] is not part.reference
            if not succeeds(part, LocalBackend(names[part.name]), _PRACTICE_SEED)
        ]
    return []


def _variables_used(name: str, names: Mapping[str, object]) -> list[str]:
    """Return the names of the notebook's numbers and tensors that an answer reads, except for constants.

    Constants are recognised by their names, which are in capital letters.
    """
    with contextlib.suppress(Exception):  # The verdict is correct without this information.
        return [
            used
            for used in sorted(names_used(names.get(name)) & names.keys())
            if isinstance(names[used], int | float | Tensor) and not used.isupper()
        ]
    return []


def _result_of_prediction(
    prediction: PredictionCheck, backend: Backend, grading: GradingOptions | None
) -> _Result:
    name, wrong = prediction.name, examine_prediction(prediction, backend)
    if wrong is None:
        return _Result(Finding(name, "right"), messages.line("✓", name, f"correct. {prediction.reason}"))
    finding = Finding(name, "unwritten" if wrong == UNANSWERED else "wrong")
    if isinstance(wrong, WrongNumber):
        finding = Finding(name, "wrong", (wrong.name,), (wrong.statement,))
    return _failure(finding, messages.wrong_prediction(name, wrong), grading)


def _result_of_file(entry: FileCheck, levels: Levels, grading: GradingOptions | None) -> _Result:
    found = judge_file(entry, levels)
    if found.share == 1:
        finding = Finding(entry.name, "right", review=found.review)
        return _Result(finding, messages.line("✓", entry.name, found.message))
    finding = Finding(entry.name, found.verdict, statements=(found.message.rstrip("."),), review=found.review)
    message = messages.line("◐" if found.share else "✗", entry.name, found.message)
    return _Result(finding, message, found.share * (grading["points"] if grading else 1))


def _failure(
    finding: Finding, message: str, grading: GradingOptions | None, difference: Difference | None = None
) -> _Result:
    """Return the result of a failed check, with the points that remain after the misconceptions' costs.

    No points remain if the check isn't graded, if no misconception explains the failure, if a misconception
    has no cost, or if a forbidden function was called.
    """
    points, mistakes = 0.0, finding.misconceptions
    costs = grading.get("costs", {}) if grading and not finding.forbidden else {}
    if grading and mistakes and costs.keys() >= set(mistakes):
        points = max(0.0, float(grading["points"] - sum(costs[name] for name in mistakes)))
    if points:
        message += f"\n  You earn {points:g} {'point' if points == 1 else 'points'} for this."
    return _Result(finding, message, points, difference)


def _show(difference: Difference) -> None:
    """Draw the result next to the expected one, if both have at least two axes and charts are installed.

    Errors in drawing are ignored.
    """
    found, expected = difference.found, difference.expected
    if found is None or expected is None or min(found.dim(), expected.dim()) < 2:
        return
    if not (found.numel() and expected.numel()):
        return
    # The message contains the same information, so an error in drawing must not hide it.
    with contextlib.suppress(Exception):
        # Import these here, because cluster nodes have neither IPython nor the packages of the charts.
        from IPython.display import SVG, display

        from course_lib.charts import as_svg, found_beside_expected

        display(SVG(as_svg(found_beside_expected(found, expected, difference.wrong))))
