"""Render the class report as one self-contained HTML page without scripts."""

from functools import cache
from pathlib import Path

import pandas as pd
from jinja2 import Template
from markupsafe import Markup

from autograder.graded_notebooks.points import rounded
from autograder.graded_notebooks.safe_html import templates
from autograder.reports.class_report.charts import CHARTS
from autograder.reports.class_report.figures import (
    GRADED,
    HELP_BELOW,
    NOT_GRADED,
    NOT_HANDED_IN,
    WAITING,
    Figures,
)
from autograder.reports.class_report.records import ClassRecords, LessonRecord
from autograder.reports.class_report.teaching import differing_lines, explanations
from course_lib.charts import Picture, as_svg

#: The maximum size of an example: lines, and characters per line. No sensible answer is longer.
EXAMPLE_LINES, EXAMPLE_WIDTH = 500, 300

#: The number of examples that are expanded when the page is opened.
OPEN_EXAMPLES = 8

_SIGNS = {WAITING: "*", NOT_GRADED: "not graded", NOT_HANDED_IN: "–"}


def report_page(
    records: ClassRecords, figures: Figures, course: str, tables: str, formgrader: str = ""
) -> str:
    """Render the page of the class report. All text from students, including names, is escaped.

    `course` is the name of the course, and `tables` is the folder of the CSV files, relative to the page. If
    `formgrader` is an address, the page links to the submissions in Formgrader.
    """
    return _template().render(
        course=course,
        records=records,
        figures=figures,
        tables=tables,
        charts={name: _drawn(draw(figures)) for name, draw in CHARTS.items()},
        lessons=[_lesson_summary(lesson, figures) for lesson in records.lessons],
        grid=_grid(records, figures),
        latest=max((entry.handed_in for entry in records.submissions if entry.handed_in), default=None),
        unjudged=_unjudged(records),
        urgent=_urgent(figures.needs_a_human),
        answers=_answers(figures.needs_a_human),
        explanations=explanations(figures.misconceptions),
        formgrader=formgrader.rstrip("/"),
    )


@cache
def _template() -> Template:
    environment = templates(Path(__file__).parent)
    environment.globals |= {
        "open_examples": OPEN_EXAMPLES,
        "help_below": HELP_BELOW,
        "differing_lines": differing_lines,
    }
    environment.filters |= {
        "short": _short,
        "number": rounded,
        "percent": _percent,
        "cut": _cut,
    }
    return environment.get_template("page.html.j2")


def _drawn(chart: Picture | None) -> Markup | None:
    """Return a chart as SVG, in which Vega escapes all text, or None if there is no chart."""
    return None if chart is None else Markup(as_svg(chart))


def _short(lesson: str) -> str:
    """Return the number of a lesson, or its name if that does not begin with a number."""
    number, dash, _ = lesson.partition("-")
    return number if dash and number.isdigit() else lesson


def _percent(value: float | None) -> str:
    return "–" if value is None or pd.isna(value) else f"{float(value):.0%}"


def _cut(code: str) -> str:
    lines = code.strip("\n").splitlines()
    shown = [
        line if len(line) <= EXAMPLE_WIDTH else line[:EXAMPLE_WIDTH] + " …" for line in lines[:EXAMPLE_LINES]
    ]
    more = len(lines) - len(shown)
    return "\n".join([*shown, f"… {more} more lines"] if more else shown)


def _lesson_summary(lesson: LessonRecord, figures: Figures) -> dict[str, object]:
    """Return the entries of a lesson's row in the tables below the charts."""
    scores = figures.scores[figures.scores["lesson"] == lesson.name]
    times = figures.time_per_lesson[figures.time_per_lesson["lesson"] == lesson.name]
    hours = times["hours_late"].dropna().astype(float)
    late = hours[hours > 0]
    return {
        **vars(lesson),
        "handed_in": int((scores["state"] != NOT_HANDED_IN).sum()),
        "graded": int(scores["state"].isin([GRADED, WAITING]).sum()),
        "waiting": int((scores["state"] == WAITING).sum()),
        "shares": scores["share"].dropna().astype(float),
        "days": times["days_since_lesson_before"].dropna().astype(float),
        "timed": len(times),
        "late": len(late),
        "hours_late": float(late.median()) if len(late) else 0.0,
    }


def _grid(records: ClassRecords, figures: Figures) -> list[tuple[str, str, list[str], float]]:
    """Return a row for each student: name, id, the texts of the lessons' cells, and the sum of the points."""
    cells: dict[str, list[str]] = {student: [] for student in records.students}
    sums = dict.fromkeys(cells, 0.0)
    table = figures.scores
    for student, state, points in zip(table["student"], table["state"], table["points"], strict=True):
        scored, sign = state in (GRADED, WAITING), _SIGNS.get(state, "")
        cells[student].append(f"{rounded(points)}{sign}" if scored else sign)
        sums[student] += float(points) if scored else 0.0
    return [(name, id, cells[id], sums[id]) for id, name in records.students.items()]


def _unjudged(records: ClassRecords) -> int:
    """Count the graded submissions with checks but without any verdict."""
    return sum(
        submission.graded
        and any(not cell.by_hand for cell in submission.cells)
        and all(cell.verdict is None for cell in submission.cells)
        for submission in records.submissions
    )


def _urgent(table: pd.DataFrame) -> list[tuple[str, str, str, str, list[str]]]:
    """Return the entries to review, except written answers: kind, lesson, student's name and id, and details.

    Details of the same kind about the same submission share a row.
    """
    rows = table[table["kind"] != "explanation"]
    keys = ["kind", "lesson", "student"]
    return [
        (str(kind), str(lesson), str(group["name"].iloc[0]), str(student), list(group["what"]))
        for (kind, lesson, student), group in rows.groupby(keys, sort=False)
    ]


def _answers(table: pd.DataFrame) -> list[tuple[str, str, list[str]]]:
    """Return the written answers that need manual grading: lesson, question and students."""
    waiting = table[table["kind"] == "explanation"]
    return [
        (str(lesson), str(what), list(rows["name"]))
        for (lesson, what), rows in waiting.groupby(["lesson", "what"], sort=False)
    ]
