"""The tables of the class report, which are written as CSV files and drawn as charts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean

import pandas as pd

from autograder.graded_notebooks.points import GradedCell
from autograder.graded_notebooks.verdicts import IN_WORDS
from autograder.reports.class_report.records import ClassRecords, SubmissionRecord
from autograder.reports.class_report.similarity import similar_answers

#: The states of a submission.
GRADED, WAITING, NOT_GRADED, NOT_HANDED_IN = "graded", "needs manual grading", "not graded", "not handed in"

#: The kinds of entries that a person has to review, the most urgent first.
KINDS = (
    "not graded",
    "limit exceeded or crash",
    "tampering",
    "check without a verdict",
    "flagged by a grader",
    "graded by hand before",
    "note",
    "explanation",
)

#: A student with a smaller share of the points so far needs help. An exercise is listed as weak if the
#: student has a smaller share of its points.
HELP_BELOW = 0.5

#: The minimum number of students for a meaningful correlation.
MIN_FOR_DISCRIMINATION = 10

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Figures:
    """The tables of the class report, ordered by lesson, exercise and student unless stated otherwise."""

    totals: pd.DataFrame
    """A row for each student: points in the lessons that anyone has handed in. Missing submissions count
    as zero; submissions that were not graded, and points that a person has not awarded yet, are excluded."""
    students_to_help: pd.DataFrame
    """A row for each student with a small share of the points, or without a lesson that at least half of the
    class handed in. The smallest share comes first."""
    scores: pd.DataFrame
    """A row for each student and lesson. The share excludes points that have not been awarded yet."""
    points_by_exercise: pd.DataFrame
    """A row for each graded cell: students with all, some or none of its points, and the verdicts.
    The discrimination is the correlation of the points for the cell with those for the rest of the lesson.
    """
    misconceptions: pd.DataFrame
    """A row for each mistake that was made, the most frequent first."""
    similar_answers: pd.DataFrame
    """A row for each pair of answers that are unusually alike, the most similar first."""
    time_per_lesson: pd.DataFrame
    """A row for each submission with a timestamp."""
    needs_a_human: pd.DataFrame
    """A row for each entry that a person has to review, the most urgent first."""


def figures(records: ClassRecords) -> Figures:
    """Compute all tables of the class report."""
    scores = _table(_scores(records), "lesson student name state points of still_open share")
    totals = _totals(scores)
    return Figures(
        totals=totals,
        students_to_help=_table(
            _students_to_help(records, scores, totals),
            "student name share not_handed_in weak_exercises mistakes",
        ),
        scores=scores,
        points_by_exercise=_table(
            _exercises(records),
            "lesson exercise kind of students mean_share discrimination full partial none waiting "
            + " ".join(_VERDICTS),
        ),
        misconceptions=_table(
            _misconceptions(records),
            "lesson exercise misconception statement students of_students example_student example "
            "all_students",
        ),
        similar_answers=_table(
            similar_answers(records), "lesson exercise students other similarity usual answer other_answer"
        ),
        time_per_lesson=_table(
            _times(records), "lesson student name handed_in_utc due_utc days_since_lesson_before hours_late"
        ),
        needs_a_human=_table(_attention(records), "kind lesson student name what"),
    )


#: Columns whose values are numbers or missing.
_NUMBERS = (
    "points",
    "still_open",
    "share",
    "mean_share",
    "discrimination",
    "similarity",
    "usual",
    "days_since_lesson_before",
    "hours_late",
)


def _table(rows: Iterable[dict[str, object] | tuple[object, ...]], columns: str) -> pd.DataFrame:
    table = pd.DataFrame(list(rows), columns=columns.split())
    return table.astype({name: float for name in _NUMBERS if name in table})


def _scores(records: ClassRecords) -> Iterator[tuple[object, ...]]:
    found = {(entry.lesson, entry.student): entry for entry in records.submissions}
    for lesson in records.lessons:
        for student, name in records.students.items():
            key = (lesson.name, student)
            submission = found.get(key)
            points = still_open = None
            if key in records.not_graded:
                state = NOT_GRADED
            elif submission is None:
                state = NOT_HANDED_IN
            else:
                state, points = (WAITING if submission.waiting else GRADED), submission.points
                still_open = submission.open
            decided = lesson.max_points - (still_open or 0.0)
            share = points / decided if points is not None and decided > 0 else None
            yield lesson.name, student, name, state, points, lesson.max_points, still_open, share


def _totals(scores: pd.DataFrame) -> pd.DataFrame:
    reached = scores.groupby("lesson")["state"].transform(lambda states: (states != NOT_HANDED_IN).any())
    rows = scores[reached & (scores["state"] != NOT_GRADED)].fillna({"points": 0.0, "still_open": 0.0})
    sums = rows.assign(decided=rows["of"] - rows["still_open"]).groupby(["student", "name"], sort=False)
    totals = sums.agg(points=("points", "sum"), of=("of", "sum"), decided=("decided", "sum")).reset_index()
    totals["share"] = (totals["points"] / totals["decided"]).where(totals["decided"] > 0)
    return totals.drop(columns="decided")


def _students_to_help(
    records: ClassRecords, scores: pd.DataFrame, totals: pd.DataFrame
) -> Iterator[tuple[object, ...]]:
    handed_in = (scores["state"] != NOT_HANDED_IN).groupby(scores["lesson"]).mean()
    expected = set(handed_in[handed_in >= 0.5].index)
    missing = scores[(scores["state"] == NOT_HANDED_IN) & scores["lesson"].isin(expected)]
    weak: dict[str, list[GradedCell]] = defaultdict(list)
    for submission in records.submissions:
        weak[submission.student] += (
            cell
            for cell in (submission.cells if submission.graded else ())
            if not cell.open and cell.points < HELP_BELOW * cell.max_points
        )
    rows = totals.sort_values(["share", "name"], kind="stable")
    # A missing share is NaN, for which every comparison is false.
    for student, name, share in zip(rows["student"], rows["name"], rows["share"].astype(float), strict=True):
        lessons = list(missing.loc[missing["student"] == student, "lesson"])
        if lessons or share < HELP_BELOW:
            exercises = (cell.exercise for cell in weak[student])
            mistakes = (text for cell in weak[student] if cell.verdict for text in cell.verdict.statements)
            yield (
                student,
                name,
                share,
                *(list(dict.fromkeys(texts)) for texts in (lessons, exercises, mistakes)),
            )


_VERDICTS = (
    *("known_mistake", "other_mistake", "not_written"),
    *("forbidden_call", "took_too_long", "not_checked"),
)


def _verdict(cell: GradedCell) -> str | None:
    if cell.verdict is None or cell.verdict.verdict == "right":
        return None
    match cell.verdict.verdict:
        case "wrong":
            return "known_mistake" if cell.verdict.misconceptions else "other_mistake"
        case "unwritten" | "missing":
            return "not_written"
        case "forbidden":
            return "forbidden_call"
        case "out-of-time":
            return "took_too_long"
        case _:
            return "not_checked"


def _exercises(records: ClassRecords) -> Iterator[dict[str, object]]:
    cells: dict[tuple[str, str], list[GradedCell]] = defaultdict(list)
    for submission in records.submissions:
        for cell in submission.cells if submission.graded else ():
            cells[submission.lesson, cell.name].append(cell)
    for lesson in records.lessons:
        for name in lesson.cells:
            found = cells[lesson.name, name]
            if not found:
                continue
            final = [cell for cell in found if not cell.open]
            verdicts = Counter(filter(None, map(_verdict, found)))
            shares = [cell.points / cell.max_points for cell in final if cell.max_points]
            full = sum(cell.points >= cell.max_points for cell in final)
            none = sum(cell.points <= 0 < cell.max_points for cell in final)
            yield {
                "lesson": lesson.name,
                "exercise": found[0].exercise,
                "kind": "explanation" if found[0].by_hand else "check",
                "of": found[0].max_points,
                "students": len(found),
                "mean_share": fmean(shares) if shares else None,
                "discrimination": _discrimination(name, lesson.name, records),
                "full": full,
                "partial": len(final) - full - none,
                "none": none,
                "waiting": len(found) - len(final),
                **{name: verdicts[name] for name in _VERDICTS},
            }


def _discrimination(name: str, lesson: str, records: ClassRecords) -> float | None:
    """Return the correlation between the points for one cell and for the rest of the lesson.

    Return None if there are too few students, or if either number of points is the same for all of them.
    """
    pairs = [
        (cell.points, sum(other.points for other in submission.cells if other is not cell and not other.open))
        for submission in records.submissions
        if submission.lesson == lesson and submission.graded
        for cell in submission.cells
        if cell.name == name and not cell.open
    ]
    table = pd.DataFrame(pairs, columns=["cell", "rest"])
    if len(table) < MIN_FOR_DISCRIMINATION or (table.nunique() < 2).any():
        return None
    return float(table["cell"].corr(table["rest"]))


def _misconceptions(records: ClassRecords) -> Iterator[dict[str, object]]:
    made: dict[tuple[str, str, str, str], list[SubmissionRecord]] = defaultdict(list)
    examined: Counter[tuple[str, str]] = Counter()
    for submission in records.submissions:
        for cell in submission.cells if submission.graded else ():
            if cell.verdict is None:
                continue
            examined[submission.lesson, cell.exercise] += 1
            # `strict` is False, because a verdict on a submitted file has statements but no misconceptions.
            for name, statement in zip(cell.verdict.misconceptions, cell.verdict.statements, strict=False):
                made[submission.lesson, cell.exercise, name, statement].append(submission)
    for (lesson, exercise, name, statement), submissions in sorted(
        made.items(), key=lambda entry: (-len(entry[1]), entry[0])
    ):
        # The shortest answer is the best example, because it contains the least unrelated code.
        example = min(
            submissions, key=lambda entry: (len(entry.answers.get(exercise, "")) or 10**9, entry.student)
        )
        yield {
            "lesson": lesson,
            "exercise": exercise,
            "misconception": name,
            "statement": statement,
            "students": len(submissions),
            "of_students": examined[lesson, exercise],
            "example_student": example.student,
            "example": example.answers.get(exercise, ""),
            "all_students": [entry.student for entry in submissions],
        }


def _times(records: ClassRecords) -> Iterator[dict[str, object]]:
    last: dict[str, datetime] = {}
    for submission in records.submissions:  # Submissions are in the order of the lessons.
        handed_in, due = submission.handed_in, submission.due
        if handed_in is None:
            continue
        before = last.get(submission.student)
        last[submission.student] = handed_in
        # Leave the days empty if the lesson was handed in before the previous one.
        days = round((handed_in - before) / _DAY, 3) if before and handed_in > before else None
        late = handed_in - due if due else None
        yield {
            "lesson": submission.lesson,
            "student": submission.student,
            "name": records.students[submission.student],
            "handed_in_utc": handed_in.isoformat(" ", "seconds"),
            "due_utc": due.isoformat(" ", "seconds") if due else "",
            "days_since_lesson_before": days,
            "hours_late": round(max(0.0, late / timedelta(hours=1)), 2) if late is not None else None,
        }


def _attention(records: ClassRecords) -> Iterator[tuple[object, ...]]:
    found: list[tuple[str, ...]] = [("not graded", *key, why) for key, why in records.not_graded.items()]
    for submission in records.submissions:
        if submission.graded:
            found += (
                (kind, submission.lesson, submission.student, what) for kind, what in _of_one(submission)
            )
    for kind, lesson, student, what in sorted(
        found, key=lambda entry: (KINDS.index(entry[0]), entry[1], entry[2])
    ):
        yield kind, lesson, student, records.students.get(student, student), what


def _of_one(submission: SubmissionRecord) -> Iterator[tuple[str, str]]:
    for record in submission.grading:
        yield from (("limit exceeded or crash", what) for what in record.violations)
        yield from (("tampering", what) for what in record.tampering)
        yield from (("note", what) for what in record.repairs)
    if submission.flagged:
        yield "flagged by a grader", "a grader flagged it in Formgrader"
    for cell in submission.cells:
        if cell.verdict is not None and cell.verdict.verdict in ("error", "kernel-died"):
            yield "check without a verdict", f"{cell.exercise}: {IN_WORDS[cell.verdict.verdict]}"
        if cell.waiting and cell.person is not None:
            given = f"a person gave {cell.points:g} of {cell.max_points:g} points"
            yield "graded by hand before", f"{cell.exercise}: {given} before it was graded again"
        elif cell.waiting and cell.by_hand:
            yield "explanation", f"{cell.exercise}: up to {cell.max_points:g} points"
        elif cell.waiting:
            yield "check without a verdict", f"{cell.exercise}: the check gave no points and no reason"
