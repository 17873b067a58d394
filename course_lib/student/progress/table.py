"""The table of lessons: in words, for a terminal, and as the page that JupyterLab starts with."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table

from course_lib.student.progress.notebooks import Lesson

_BAR = 10


def state_of(lesson: Lesson) -> str:
    """Say in a few words how far a lesson is."""
    if lesson.problem:
        return lesson.problem
    if not lesson.begun:
        return "not begun"
    if lesson.passing == len(lesson.checks):
        return f"all {lesson.passing} checks pass ✓"
    again = f", {lesson.old} to be run again" if lesson.old else ""
    return f"{lesson.passing} of {len(lesson.checks)} checks pass{again}"


def summary(lessons: Iterable[Lesson]) -> str:
    """Say how much is done, over all lessons."""
    checks = [check for lesson in lessons for check in lesson.checks]
    passing = sum(lesson.passing for lesson in lessons)
    return f"{passing} of {len(checks)} checks pass."


def terminal_table(lessons: Sequence[Lesson]) -> Table:
    """Give the table for rich to print."""
    table = Table(box=box.SIMPLE)
    table.add_column("lesson")
    table.add_column("minutes", justify="right", no_wrap=True)
    table.add_column("points", justify="right", no_wrap=True)
    table.add_column("yours", min_width=18)
    for lesson in lessons:
        table.add_row(_title(lesson), _number(lesson.minutes), _number(lesson.points), state_of(lesson))
    return table


def start_page(lessons: Sequence[Lesson]) -> str:
    """Give the page as Markdown, with links to the notebooks beside it."""
    rows = [
        f"| [{_title(lesson)}]({lesson.name}/{lesson.name}.ipynb) | {_number(lesson.minutes)} "
        f"| {_number(lesson.points)} | {_bar(lesson)} {state_of(lesson)} |"
        for lesson in lessons
    ]
    return "\n".join(
        [
            "# Build the Transformer",
            "",
            f"Click on a lesson to open it. They build on each other, so go from top to bottom. "
            f"So far, {summary(lessons)}",
            "",
            "| lesson | minutes | points | yours |",
            "|:--|--:|--:|:--|",
            *rows,
            "",
            "A check counts as it was when you last **saved** its notebook. Points come from the checks, and "
            "from a person for what you explain in words.",
            "",
            "This page is written anew each time you save a notebook. To see that, close it and open "
            "`start.md` again, or run `python -m course_lib.student.progress` in a terminal.",
            "",
        ]
    )


def _title(lesson: Lesson) -> str:
    return f"{lesson.name[:2]} {lesson.title}" if lesson.title != lesson.name else lesson.name


def _number(value: float) -> str:
    return f"{value:g}" if value else ""


def _bar(lesson: Lesson) -> str:
    done = _BAR * lesson.passing // len(lesson.checks) if lesson.checks else 0
    return "▰" * done + "▱" * (_BAR - done)
