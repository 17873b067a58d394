"""A student's progress: the state of their lessons, read from the saved notebooks. No cell is executed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from course_lib.curriculum import public_curriculum
from course_lib.curriculum.stubs import UNWRITTEN

_CHECK = "check_"
_LESSON = re.compile(r"\d\d-[a-z0-9-]+")


class ProgressError(ValueError):
    """The error raised if the lessons are missing. The message is one line and says what to do."""


class State(StrEnum):
    """The state of a check cell, according to the saved notebook."""

    NOT_RUN = "not run"
    PASSES = "passes"
    FAILS = "fails"
    OUTDATED = "the code was run again since"
    """The checked cell was run after its check, so its code may have changed."""


@dataclass(frozen=True)
class LessonProgress:
    """A student's progress in one lesson."""

    name: str
    title: str
    minutes: int = 0
    points: float = 0.0
    """The maximum score: the points of the checks and of the explanations, which are graded by hand."""
    checks: Mapping[str, State] = field(default_factory=dict)
    """The state of each check cell, by the name of the check."""
    started: bool = False
    problem: str = ""
    """The reason why the notebook can't be read, or an empty string. If set, only the name is known."""

    @property
    def passing(self) -> int:
        """The number of checks that pass."""
        return sum(state is State.PASSES for state in self.checks.values())

    @property
    def outdated(self) -> int:
        """The number of checks that should be run again."""
        return sum(state is State.OUTDATED for state in self.checks.values())


def is_lesson(path: Path) -> bool:
    """Return whether a path leads to a lesson's notebook, such as 01-attention/01-attention.ipynb."""
    return path.suffix == ".ipynb" and bool(_LESSON.fullmatch(path.stem)) and path.stem == path.parent.name


def read_lessons(folder: Path) -> list[LessonProgress]:
    """Read all lessons in a folder, in order.

    A lesson whose notebook can't be read has a `problem`. Raises ProgressError if the folder doesn't exist or
    contains no lessons.
    """
    if not folder.is_dir():
        problem = "this is not a folder" if folder.exists() else "there is no such folder"
        raise ProgressError(f"{folder}: {problem}. Pass the folder that contains the lessons.")
    notebooks = _lesson_notebooks(folder)
    if not notebooks:
        raise ProgressError(
            f"{folder}: this folder contains no lessons, such as 01-attention/01-attention.ipynb. "
            "Pass the folder that contains them."
        )
    return [_read_lesson(path) for path in notebooks]


def nearest_lessons() -> Path:
    """Return the first folder that contains lessons: `lessons`, the current folder, or its parent.

    If none of them does, return `lessons`. JupyterLab opens terminals in the folder of the lessons, or in the
    folder of one lesson.
    """
    usual = Path("lessons")
    return next((folder for folder in (usual, Path(), Path("..")) if _lesson_notebooks(folder)), usual)


def _lesson_notebooks(folder: Path) -> list[Path]:
    return sorted(filter(is_lesson, folder.glob("*/*.ipynb")))


def finished_exercises(folder: str | Path = "..") -> list[str]:
    """Return the exercises of the architecture map whose checks pass in the saved notebooks of a folder.

    The default is the parent of the current folder, because a notebook's kernel runs in the folder of its
    lesson. The result is empty if the folder contains no lessons, because a lesson must also work on its own.
    """
    try:
        lessons = read_lessons(Path(folder))
    except (ProgressError, OSError):
        return []
    passing = {name for lesson in lessons for name, state in lesson.checks.items() if state is State.PASSES}
    return [name for name in public_curriculum().blocks if name in passing]


def _read_lesson(path: Path) -> LessonProgress:
    name = path.stem
    try:
        notebook = nbformat.read(path, as_version=4)
        cells = {
            nbgrader["grade_id"]: cell
            for cell in notebook.cells
            if (nbgrader := _nbgrader_metadata(cell)).get("grade_id")
        }
        course = notebook.metadata.get("course", {})
        checks = {
            grade_id.removeprefix(_CHECK): _state(grade_id, cells)
            for grade_id, cell in cells.items()
            if cell.cell_type == "code" and grade_id.startswith(_CHECK)
        }
        return LessonProgress(
            name,
            title=str(course.get("title", name)),
            minutes=int(course.get("minutes", 0)),
            points=sum(_points(cell) for cell in cells.values()),
            checks=checks,
            started=any(state is not State.NOT_RUN for state in checks.values())
            or any(_is_answered(cell) for cell in cells.values()),
        )
    except OSError as error:
        return LessonProgress(name, name, problem=f"can't be read: {error.strerror}")
    # A damaged file can cause any error, and nbformat's errors have no common base class.
    except Exception:
        return LessonProgress(
            name, name, problem="not a valid notebook; download it again, or restore a checkpoint"
        )


def _state(grade_id: str, cells: dict[str, NotebookNode]) -> State:
    """Return the state of a check cell. `cells` maps grade ids to the cells of its notebook."""
    check, name = cells[grade_id], grade_id.removeprefix(_CHECK)
    outputs = check.get("outputs", [])
    if not outputs:
        return State.NOT_RUN
    if f"✓ {name}: " not in "".join(str(output.get("text", "")) for output in outputs):
        return State.FAILS
    run, checked = cells.get(name, {}).get("execution_count"), check.get("execution_count")
    return State.OUTDATED if run and checked and run > checked else State.PASSES


def _is_answered(cell: NotebookNode) -> bool:
    """Return whether a cell is a solution's code cell whose stub or `NAME = None` has been replaced."""
    if cell.cell_type != "code" or not _nbgrader_metadata(cell).get("solution"):
        return False
    return UNWRITTEN not in cell.source and not re.search(r"^\w+ = None\b", cell.source, re.MULTILINE)


def _points(cell: NotebookNode) -> float:
    metadata = _nbgrader_metadata(cell)
    return float(metadata.get("points", 0)) if metadata.get("grade") else 0.0


def _nbgrader_metadata(cell: NotebookNode) -> dict[str, Any]:
    return cell.metadata.get("nbgrader", {})
