"""Show the state of all lessons: as a table for the terminal, and as the page that JupyterLab opens first.

The page is written before JupyterLab starts, and again whenever a notebook is saved. A small extension of
JupyterLab, in `LABEXTENSIONS`, then reloads the page if it is open.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich import box
from rich.table import Table

from course_lib.atomic_files import atomic_write_text
from course_lib.student.progress import LessonProgress, ProgressError, is_lesson, read_lessons

#: The page's name, in the folder of the lessons.
PAGE = "start.md"
#: The folder for `LabApp.app_settings_dir`, with settings that make JupyterLab render Markdown files.
SETTINGS = Path(__file__).parent / "jupyterlab"
#: The folder of the extension that reloads an open page, for `LabApp.extra_labextensions_path`.
LABEXTENSIONS = SETTINGS / "labextensions"
_BAR_LENGTH = 10

_TEMPLATE = """\
# Build the Transformer

Click a lesson to open it. The lessons build on each other, so work from top to bottom. So far, {summary}

| lesson | minutes | points | your progress |
|:--|--:|--:|:--|
{rows}

The table shows each check as of the last time you **saved** its notebook. You earn points for the checks, \
and for your explanations, which are graded by hand.

This page updates itself each time a notebook is saved, and JupyterLab saves automatically while you work. \
In a terminal, `course progress` shows the same table.
"""


_NOTHING_FETCHED = """\
# Build the Transformer

You have no lessons yet. Open **Nbgrader > Assignment List**, choose the course, and fetch the first one.
"""


def describe(lesson: LessonProgress) -> str:
    """Describe a student's progress in a lesson in a few words."""
    if lesson.problem:
        return lesson.problem
    if not lesson.started:
        return "not started"
    if lesson.passing == len(lesson.checks):
        return f"all {lesson.passing} checks pass ✓"
    outdated = f", run {lesson.outdated} again" if lesson.outdated else ""
    return f"{lesson.passing} of {len(lesson.checks)} checks pass{outdated}"


def summary(lessons: Iterable[LessonProgress]) -> str:
    """Return a sentence that says how many of the checks pass."""
    checks = [check for lesson in lessons for check in lesson.checks]
    return f"{sum(lesson.passing for lesson in lessons)} of {len(checks)} checks pass."


def terminal_table(lessons: Sequence[LessonProgress]) -> Table:
    """Return the state of the lessons as a table for rich to print."""
    table = Table(box=box.SIMPLE)
    table.add_column("lesson")
    table.add_column("minutes", justify="right", no_wrap=True)
    table.add_column("points", justify="right", no_wrap=True)
    table.add_column("your progress", min_width=18)
    for lesson in lessons:
        table.add_row(_title(lesson), _number(lesson.minutes), _number(lesson.points), describe(lesson))
    return table


def start_page(lessons: Sequence[LessonProgress]) -> str:
    """Return the start page as Markdown, with links to the notebooks."""
    rows = [
        f"| [{_title(lesson)}]({lesson.name}/{lesson.name}.ipynb) | {_number(lesson.minutes)} "
        f"| {_number(lesson.points)} | {_bar(lesson)} {describe(lesson)} |"
        for lesson in lessons
    ]
    return _TEMPLATE.format(summary=summary(lessons), rows="\n".join(rows))


def write_page(folder: Path) -> None:
    """Write the start page of a folder of lessons.

    Raises ProgressError if the folder doesn't exist or contains no lessons.
    """
    atomic_write_text(folder / PAGE, start_page(read_lessons(folder)))


def first_page(home: Path, course_id: str) -> str:
    """Write the start page of a student's account, and return the URL path that JupyterLab opens first.

    The page is in `home`/`course_id`, the folder to which nbgrader fetches the lessons. The folder is created
    if necessary. If it contains no lessons, the page says how to fetch one. If the page can't be written,
    the result is `/lab`, which opens JupyterLab without a page.
    """
    folder = home / course_id
    try:
        folder.mkdir(exist_ok=True)
        try:
            write_page(folder)
        except ProgressError:
            atomic_write_text(folder / PAGE, _NOTHING_FETCHED)
    except OSError:  # If the disk is full, for example, students can still open the lessons.
        return "/lab"
    return f"/lab/tree/{quote(course_id)}/{PAGE}"


def after_saving(*, os_path: str, model: dict[str, Any], contents_manager: Any, **_: Any) -> None:
    """Update the start page after a lesson's notebook has been saved. Other files are ignored.

    This is Jupyter's `post_save_hook`, which determines the names of the arguments. If the page can't be
    updated, the error is logged.
    """
    if model.get("type") != "notebook" or not is_lesson(Path(os_path)):
        return
    try:
        write_page(Path(os_path).parents[1])
    except (OSError, ProgressError) as error:
        contents_manager.log.warning("The start page is not up to date: %s", error)


def _title(lesson: LessonProgress) -> str:
    return f"{lesson.name[:2]} {lesson.title}" if lesson.title != lesson.name else lesson.name


def _number(value: float) -> str:
    return f"{value:g}" if value else ""


def _bar(lesson: LessonProgress) -> str:
    done = _BAR_LENGTH * lesson.passing // len(lesson.checks) if lesson.checks else 0
    return "▰" * done + "▱" * (_BAR_LENGTH - done)
