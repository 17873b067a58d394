"""What the lessons' notebooks say of themselves, as they were last saved. No cell is run."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from course_lib.student.unwritten import UNWRITTEN

_CHECK = "check_"
_LESSON = re.compile(r"\d\d-[a-z0-9-]+")


class ProgressError(ValueError):
    """There is nothing to report on. The message is one line: what was expected, and what to do."""


class State(StrEnum):
    """What a check cell said when it was last run."""

    NOT_RUN = "not run"
    PASSES = "passes"
    FAILS = "fails"
    OLD = "the code was run again since"
    """What was checked has been run again after its check, so it may have changed."""


@dataclass(frozen=True)
class Check:
    """One check cell."""

    name: str
    points: float
    state: State


@dataclass(frozen=True)
class Lesson:
    """One lesson of a student's."""

    name: str
    title: str
    minutes: int
    points: float
    """All that can be had: the checks' points, and those that a person gives for explanations."""
    checks: tuple[Check, ...]
    begun: bool
    problem: str = ""
    """Why the notebook could not be read; then all else is empty."""

    @property
    def passing(self) -> int:
        """How many checks pass."""
        return sum(check.state is State.PASSES for check in self.checks)

    @property
    def old(self) -> int:
        """How many checks are to be run again."""
        return sum(check.state is State.OLD for check in self.checks)


def read_lessons(folder: Path) -> list[Lesson]:
    """Read all lessons in a folder, in their order. Raises ProgressError where there are none."""
    if not folder.is_dir():
        raise ProgressError(f"{folder}: there is no such folder; give the one with the lessons' folders")
    notebooks = sorted(
        path
        for path in folder.glob("*/*.ipynb")
        if _LESSON.fullmatch(path.stem) and path.stem == path.parent.name
    )
    if not notebooks:
        raise ProgressError(f"{folder}: no lessons in it, such as 01-attention/01-attention.ipynb")
    return [_lesson(path) for path in notebooks]


def _lesson(path: Path) -> Lesson:
    name = path.stem
    try:
        notebook = nbformat.read(path, as_version=4)
        cells = [cell for cell in notebook.cells if _marks(cell).get("grade_id")]
        about = notebook.metadata.get("course", {})
        return Lesson(
            name,
            str(about.get("title", name)),
            int(about.get("minutes", 0)),
            sum(float(_marks(cell).get("points", 0)) for cell in cells if _marks(cell).get("grade")),
            tuple(_checks(cells)),
            _begun(cells),
        )
    except OSError as error:
        return _unreadable(name, f"cannot be read: {error.strerror}")
    # A file that a student has broken can be wrong in any way; nbformat has no one class for all of them.
    except Exception:
        return _unreadable(name, "is no valid notebook; get it anew, or restore a checkpoint")


def _unreadable(name: str, problem: str) -> Lesson:
    return Lesson(name, name, 0, 0.0, (), begun=False, problem=problem)


def _checks(cells: Iterable[NotebookNode]) -> Iterable[Check]:
    by_name = {_marks(cell)["grade_id"]: cell for cell in cells}
    for grade_id, cell in by_name.items():
        if cell.cell_type == "code" and grade_id.startswith(_CHECK):
            name = grade_id.removeprefix(_CHECK)
            yield Check(name, float(_marks(cell).get("points", 0)), _state(name, cell, by_name.get(name)))


def _state(name: str, check: NotebookNode, solution: NotebookNode | None) -> State:
    outputs = check.get("outputs", [])
    if not outputs:
        return State.NOT_RUN
    if f"✓ {name}: " not in "".join(str(output.get("text", "")) for output in outputs):
        return State.FAILS
    run, checked = solution and solution.get("execution_count"), check.get("execution_count")
    return State.OLD if run and checked and run > checked else State.PASSES


def _begun(cells: list[NotebookNode]) -> bool:
    """Say whether anything was written or checked."""
    solutions = [cell for cell in cells if _marks(cell).get("solution") and cell.cell_type == "code"]
    if any(check.state is not State.NOT_RUN for check in _checks(cells)):
        return True
    return any(
        UNWRITTEN not in cell.source and not re.search(r"^\w+ = None\b", cell.source, re.MULTILINE)
        for cell in solutions
    )


def _marks(cell: NotebookNode) -> dict[str, Any]:
    marks: dict[str, Any] = cell.metadata.get("nbgrader", {})
    return marks
