"""What the check cells of a notebook call."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from course_lib.checks.engine.candidate import Holder
from course_lib.checks.engine.comparison import Difference
from course_lib.checks.engine.diagnosis import Verdict, examine
from course_lib.checks.engine.exercise import Exercise, Prediction
from course_lib.checks.engine.findings import Finding, Kind, note
from course_lib.checks.engine.local_backend import LocalHolder
from course_lib.checks.engine.messages import (
    accepted,
    failure,
    not_handed_in,
    not_there,
    success,
    wrong_prediction,
)
from course_lib.checks.engine.misconceptions import Misconception, WrongNumber
from course_lib.checks.engine.prediction import answers
from course_lib.checks.engine.reply import KERNEL_DIED, OUT_OF_TIME
from course_lib.checks.exercises.final_lab.hand_in import HandIn, Levels, look
from course_lib.checks.exercises.registry import catalogue, find


class CheckError(AssertionError):
    """A check found something. In a notebook it shows as its message alone, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        """Say to IPython what to print in place of a traceback."""
        return str(self).split("\n")


@dataclass(frozen=True)
class Grading:
    """How a check is to be graded."""

    points: float
    seed: int
    costs: Mapping[str, float]


_PRACTICE_SEED = "practice"
_next_grading: list[Grading] = []


def grading(*, points: float, seed: int, costs: Mapping[str, float] | None = None) -> None:
    """Have the next check graded: with numbers of its own, and with partial credit.

    A failure that consists only of misconceptions named in `costs` costs those points, any other all of them.
    """
    _next_grading[:] = [Grading(points, seed, costs or {})]


def check(
    name: str,
    names: Mapping[str, object],
    *,
    may_not_call: Sequence[str] = (),
    levels: Levels | None = None,
) -> float | None:
    """Check what a student wrote for the exercise or prediction of this name.

    `names` is where to find it: in a notebook, `globals()`. Prints one line where it is right. Where it is
    not, raises one short AssertionError that says which mistake it is, and shows a picture of what came out
    beside what was expected. `may_not_call` names torch functions that would be the whole exercise. When
    graded, gives the points that a mistake leaves, if any.

    For a file to hand in, `levels` says which score is worth how many points, and the file's folder is looked
    at, not `names`.
    """
    graded = _next_grading.pop() if _next_grading else None
    entry = find(name)
    if isinstance(entry, HandIn):
        return _check_hand_in(entry, levels or {}, graded)
    if name not in names:
        note(Finding(name, "missing", points=0.0 if graded else None, most=graded.points if graded else None))
        others = [other for other in names if not other.startswith("_") and other not in catalogue()]
        raise CheckError(not_there(name, others))
    found = names[name]
    holder = found if isinstance(found, Holder) else LocalHolder(found, tuple(may_not_call))
    if isinstance(entry, Prediction):
        return _check_prediction(entry, holder, graded)
    return _check_exercise(entry, holder, graded)


def _check_exercise(exercise: Exercise, holder: Holder, graded: Grading | None) -> float | None:
    verdict = examine(exercise, holder, f"graded {graded.seed}" if graded else _PRACTICE_SEED)
    points = _left(verdict.named, verdict, graded)
    _note(exercise.name, _kind(verdict), verdict.named, points, graded, verdict.forbidden)
    if verdict.passed:
        print(success(exercise.name, verdict.probes))
        return None
    if verdict.difference is not None and not verdict.unwritten:
        _show(verdict.difference)
    return _settle(failure(verdict), points)


def _check_prediction(prediction: Prediction, holder: Holder, graded: Grading | None) -> float | None:
    wrong = answers(prediction, holder)
    named = (wrong,) if isinstance(wrong, WrongNumber) else ()
    points = _left(named, None, graded)
    _note(prediction.name, "right" if wrong is None else "wrong", named, points, graded)
    if wrong is None:
        print(f"✓ {prediction.name}: right.")
        return None
    return _settle(wrong_prediction(prediction.name, wrong), points)


def _check_hand_in(entry: HandIn, levels: Levels, graded: Grading | None) -> float | None:
    found = look(entry, levels)
    most = graded.points if graded else None
    points = found.share * most if most is not None else None
    kind: Kind = "right" if found.share == 1 else found.kind
    says = () if kind == "right" else (found.says.rstrip("."),)
    note(Finding(entry.name, kind, says=says, points=points, most=most, look_at=found.look_at))
    if not found.share:
        raise CheckError(not_handed_in(entry.name, found.says))
    print(accepted(entry.name, found.says, whole=found.share == 1))
    return None if found.share == 1 else points


def _kind(verdict: Verdict) -> Kind:
    if verdict.passed:
        return "right"
    if verdict.unwritten:
        return "unwritten"
    if verdict.difference is None:
        return "forbidden"
    stopped: dict[str, Kind] = {OUT_OF_TIME: "out-of-time", KERNEL_DIED: "kernel-died"}
    return stopped.get(verdict.stopped, "wrong")


def _note(
    name: str,
    kind: Kind,
    named: Sequence[Misconception | WrongNumber],
    left: float,
    graded: Grading | None,
    forbidden: tuple[str, ...] = (),
) -> None:
    """Tell those who watch the checks what this one found."""
    most = graded.points if graded else None
    says = tuple(
        one.statement if isinstance(one, Misconception) else f"{one.value:g} is no uncommon answer"
        for one in named
    )
    points = most if kind == "right" else left if graded else None
    note(Finding(name, kind, tuple(one.name for one in named), says, forbidden, points, most))


def _settle(message: str, points: float) -> float:
    if points <= 0:
        raise CheckError(message)
    print(f"{message}\n  {points:g} points are left for this.")
    return points


def _left(
    named: Sequence[Misconception | WrongNumber], verdict: Verdict | None, graded: Grading | None
) -> float:
    """Say how many points a failure leaves."""
    if graded is None or not named or (verdict is not None and verdict.forbidden):
        return 0.0
    if any(mistake.name not in graded.costs for mistake in named):
        return 0.0
    return float(graded.points - sum(graded.costs[mistake.name] for mistake in named))


def _show(difference: Difference) -> None:
    """Draw what came out beside what was expected, where both are tables and something can draw them."""
    found, expected = difference.found, difference.expected
    if found is None or expected is None or min(found.dim(), expected.dim()) < 2:
        return
    if not (found.numel() and expected.numel()):
        return
    try:
        from IPython.display import SVG, display

        from course_lib.charts import as_svg, found_beside_expected
    except ImportError:  # a cluster node has neither
        return
    # Without a picture the words still say it; with an error of the picture's, nothing would.
    with contextlib.suppress(Exception):
        if found.shape == expected.shape:
            # On the axes before the last two, the first table that differs.
            place = difference.place[:-2]
            chart = found_beside_expected(found[place], expected[place], title=_title(place))
        else:
            chart = found_beside_expected(_first_table(found), _first_table(expected), title=_title(()))
        display(SVG(as_svg(chart)))


def _first_table(tensor: Tensor) -> Tensor:
    """Give the first table of a tensor with axes in front of it."""
    return tensor[(0,) * (tensor.dim() - 2)]


def _title(place: tuple[int, ...]) -> str:
    where = f", at {list(place)} of the axes in front" if place else ""
    return f"What came out, beside what was expected{where}"
