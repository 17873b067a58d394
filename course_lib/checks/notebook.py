"""The function that a notebook's check cells call."""

import contextlib
import dis
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType
from typing import NotRequired, TypedDict, cast

from course_lib import check_log
from course_lib.checks.engine import messages
from course_lib.checks.engine.candidate import Backend
from course_lib.checks.engine.comparison import Difference, shown_number
from course_lib.checks.engine.diagnosis import Verdict, examine, examine_prediction, succeeds
from course_lib.checks.engine.exercise import Exercise, Prediction
from course_lib.checks.engine.findings import Finding, Kind, emit, record
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.misconceptions import Misconception, WrongNumber
from course_lib.checks.engine.reply import KERNEL_DIED, OUT_OF_TIME
from course_lib.checks.engine.versions import BrokenCheckError
from course_lib.checks.exercises.final_lab.hand_in import HandIn, Levels, judge_file
from course_lib.checks.exercises.registry import catalogue, find

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

    `names` holds the student's objects: in a notebook, `globals()`. Prints one line if the answer is correct.
    Otherwise raises a CheckError whose message says what is wrong. If tensors with two or more axes differ, a
    picture shows the result next to the expected one. Raises BrokenCheckError if the reference fails or the
    check has a bug, so that a broken check never passes an answer or reports it as wrong, and ValueError if
    there is no check called `name`. `may_not_call` names torch functions that would solve the whole exercise;
    an answer that calls one of them fails. For a file to submit, `levels` holds the BLEU thresholds of each
    corpus with their points, and the notebook's folder is searched instead of `names`.

    With `grading`, which only an instructor's copy of a check cell contains, the check draws different random
    inputs. For a partly correct answer, it prints the message and returns the points that the answer earns.
    For a correct one it returns None, which nbgrader counts as all points.

    Without `grading`, the result is also written to the student's own log if they have turned it on.
    """
    entry = find(name)
    with record() as findings:
        try:
            return _check(name, entry, names, may_not_call, levels or {}, grading)
        except CheckError as error:
            error.exercise = name
            raise
        except Exception as error:
            _emit(name, "error")
            if isinstance(error, BrokenCheckError):
                raise
            raise BrokenCheckError(
                f"The check of {name} could not run: it raised {type(error).__name__} ({error}). This is an "
                "error in the course, not in your code. Run the cell again; if it fails again, report it."
            ) from error
        finally:
            if grading is None:
                for finding in findings:
                    check_log.append(finding.name, finding.verdict, finding.misconceptions, names.get(name))


def _check(
    name: str,
    entry: Exercise | Prediction | HandIn,
    names: Mapping[str, object],
    may_not_call: Sequence[str],
    levels: Levels,
    grading: GradingOptions | None,
) -> float | None:
    if isinstance(entry, HandIn):
        return _check_hand_in(entry, levels, grading)
    if name not in names:
        _emit(name, "missing")
        others = [other for other in names if not other.startswith("_") and other not in catalogue()]
        raise CheckError(messages.missing(name, others))
    found = names[name]
    # `isinstance` would ask the object for its class, which runs a student's `__getattribute__`.
    is_backend = issubclass(type(found), Backend)
    backend = cast(Backend, found) if is_backend else LocalBackend(found, tuple(may_not_call))
    if isinstance(entry, Prediction):
        return _check_prediction(entry, backend, grading)
    return _check_exercise(entry, backend, grading, {} if grading or is_backend else names)


def _check_exercise(
    exercise: Exercise, backend: Backend, grading: GradingOptions | None, names: Mapping[str, object]
) -> float | None:
    """Check an exercise. `names` holds the student's objects that can be blamed for a failure."""
    verdict = examine(exercise, backend, f"graded {grading['seed']}" if grading else _PRACTICE_SEED)
    _emit(exercise.name, _kind(verdict), verdict.named, verdict.forbidden)
    if verdict.passed:
        print(messages.line("✓", exercise.name, f"correct: all {verdict.probes} tests passed."))
        return None
    if verdict.difference is not None and not verdict.unwritten:
        _show(verdict.difference)
    points = 0.0 if verdict.forbidden else _points(verdict.named, grading)
    wrong_parts = () if verdict.unwritten else _wrong_parts(exercise.name, names)
    return _finish(messages.failure(verdict, wrong_parts), points)


def _wrong_parts(name: str, names: Mapping[str, object]) -> list[str]:
    """Return the student's solutions of other exercises that an answer uses and that fail their checks."""
    with contextlib.suppress(Exception):  # The message says what is wrong with the answer in any case.
        used = _names_used(names.get(name))
        return [
            part.name
            for part in catalogue().values()
            if isinstance(part, Exercise) and part.name in used - {name} and part.name in names
            if names[part.name] is not part.reference
            if not succeeds(part, LocalBackend(names[part.name]), _PRACTICE_SEED)
        ]
    return []


#: The instructions that read a global name. The code of a class's body uses the second.
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")


def _names_used(found: object) -> set[str]:
    """Return the global names in the code of a function, or of a class's methods."""
    functions = vars(found).values() if isinstance(found, type) else [found]
    waiting = [function.__code__ for function in functions if isinstance(function, FunctionType)]
    used: set[str] = set()
    while waiting:
        code = waiting.pop()
        # `co_names` would also contain the names of attributes.
        used.update(each.argval for each in dis.get_instructions(code) if each.opname in _GLOBALS)
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return used


def _check_prediction(
    prediction: Prediction, backend: Backend, grading: GradingOptions | None
) -> float | None:
    wrong = examine_prediction(prediction, backend)
    named = (wrong,) if isinstance(wrong, WrongNumber) else ()
    _emit(prediction.name, "right" if wrong is None else "wrong", named)
    if wrong is None:
        print(messages.line("✓", prediction.name, f"correct. {prediction.reason}"))
        return None
    return _finish(messages.wrong_prediction(prediction.name, wrong), _points(named, grading))


def _check_hand_in(entry: HandIn, levels: Levels, grading: GradingOptions | None) -> float | None:
    found = judge_file(entry, levels)
    kind: Kind = "right" if found.share == 1 else found.kind
    statements = () if kind == "right" else (found.message.rstrip("."),)
    emit(Finding(entry.name, kind, statements=statements, review=found.review))
    if not found.share:
        raise CheckError(messages.line("✗", entry.name, found.message))
    print(messages.line("✓" if found.share == 1 else "◐", entry.name, found.message))
    return None if found.share == 1 or grading is None else found.share * grading["points"]


def _kind(verdict: Verdict) -> Kind:
    if verdict.passed:
        return "right"
    if verdict.unwritten:
        return "unwritten"
    if verdict.difference is None:
        return "forbidden"
    stopped: dict[str, Kind] = {OUT_OF_TIME: "out-of-time", KERNEL_DIED: "kernel-died"}
    return stopped.get(verdict.stopped, "wrong")


def _emit(
    name: str,
    kind: Kind,
    named: Sequence[Misconception | WrongNumber] = (),
    forbidden: tuple[str, ...] = (),
) -> None:
    statements = tuple(
        one.statement
        if isinstance(one, Misconception)
        else f"{shown_number(one.value)} is a common wrong answer"
        for one in named
    )
    emit(Finding(name, kind, tuple(one.name for one in named), statements, forbidden))


def _points(named: Sequence[Misconception | WrongNumber], grading: GradingOptions | None) -> float:
    """Return the points that a failure still earns after the costs of these misconceptions.

    This is 0 if the check isn't graded, if no misconception explains the failure, or if one of them has no
    cost.
    """
    costs = grading.get("costs", {}) if grading else {}
    if grading is None or not named or any(mistake.name not in costs for mistake in named):
        return 0.0
    return float(grading["points"] - sum(costs[mistake.name] for mistake in named))


def _finish(message: str, points: float) -> float:
    if points <= 0:
        raise CheckError(message)
    print(f"{message}\n  You earn {points:g} {'point' if points == 1 else 'points'} for this.")
    return points


def _show(difference: Difference) -> None:
    """Draw the result next to the expected one, if both have at least two axes and charts are installed.

    Errors in drawing are ignored.
    """
    found, expected = difference.found, difference.expected
    if found is None or expected is None or min(found.dim(), expected.dim()) < 2:
        return
    if not (found.numel() and expected.numel()):
        return
    try:
        from IPython.display import SVG, display

        from course_lib.charts import as_svg, found_beside_expected
    except ImportError:  # Cluster nodes have neither IPython nor the charts.
        return
    # The message contains the same information, so an error in drawing must not hide it.
    with contextlib.suppress(Exception):
        display(SVG(as_svg(found_beside_expected(found, expected, difference.wrong))))
