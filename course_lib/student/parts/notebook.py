"""Read a student's notebook: the solution cells by name, and the imports of the setup cell.

A notebook is JSON, so no Jupyter is needed. nbgrader's metadata says which cells are solutions.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.student.parts.errors import AbsentError, PartsError

SETUP = "setup"


@dataclass(frozen=True)
class Notebook:
    """What a lesson's notebook holds that the parts are made of."""

    place: str
    """The file, as messages name it."""
    setup: str
    """The code of the read-only cell that imports; empty where it is missing."""
    solutions: dict[str, str]
    """The code of each solution cell, by its exercise."""
    spoilt: dict[str, str]
    """Why a cell of that name cannot be used, where it is there but no code to write, or there twice."""

    def solution(self, exercise: str) -> str:
        """Give the code of a solution cell. Raises PartsError where there is none to be used."""
        if exercise in self.spoilt:
            raise PartsError(f"{self.place}, cell {exercise}: {self.spoilt[exercise]}")
        if exercise not in self.solutions:
            raise PartsError(
                f"{self.place}: the solution cell {exercise} is missing; get the notebook anew and copy your "
                "code into that cell"
            )
        return self.solutions[exercise]


def read_notebook(folder: Path, lesson: str) -> Notebook:
    """Read `LESSON/LESSON.ipynb` in a folder. Raises PartsError where it is no notebook."""
    place = f"{lesson}/{lesson}.ipynb"
    try:
        text = (folder / lesson / f"{lesson}.ipynb").read_text(encoding="utf-8")
    except FileNotFoundError:
        where = folder.resolve().name
        raise AbsentError(f"{place}: there is no such notebook in {where}/; put it there") from None
    except UnicodeDecodeError:
        raise PartsError(f"{place}: it is no notebook, since it is not text; get the file anew") from None
    except OSError as error:
        raise PartsError(f"{place}: it cannot be read: {error.strerror}; look at its permissions") from None
    try:
        entries = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise PartsError(
            f"{place}: it is no notebook, since it is not valid JSON{where}; was it saved only in part, or "
            "merged by git? Get it anew or restore a checkpoint"
        ) from None
    cells = entries.get("cells") if isinstance(entries, dict) else None
    if not isinstance(cells, list):
        raise PartsError(f"{place}: it is JSON, but no notebook, since it has no list of cells; get it anew")
    return _sorted(place, [cell for cell in cells if isinstance(cell, dict)])


def _sorted(place: str, cells: list[dict[str, Any]]) -> Notebook:
    setup, solutions, spoilt = "", {}, {}
    for cell in cells:
        marks = _marks(cell)
        name = marks.get("grade_id")
        if not isinstance(name, str):
            continue
        if name == SETUP:
            setup = _source(cell)
        elif marks.get("solution") is True:
            if name in solutions or name in spoilt:
                spoilt[name] = "two cells have this name; delete the one that you do not want"
            elif cell.get("cell_type") != "code":
                spoilt[name] = "it is a text cell now; make it a code cell again (press Y)"
            else:
                solutions[name] = _source(cell)
    return Notebook(place, setup, solutions, spoilt)


def _marks(cell: dict[str, Any]) -> dict[str, Any]:
    metadata = cell.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return marks if isinstance(marks, dict) else {}


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    lines = source if isinstance(source, list) else [source]
    return "".join(line for line in lines if isinstance(line, str))
