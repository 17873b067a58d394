"""Read the code of a student's parts: from the notebooks of a folder, or from the copy that a run keeps.

A notebook is JSON, so Jupyter isn't needed. nbgrader's metadata says which cells are solutions.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.atomic_files import atomic_write_text

SETUP = "setup"
_KEPT_FIELDS = ("lesson", "exercise", "location", "setup", "code")


class PartsError(ValueError):
    """The error raised if parts can't be used. The message is one line: location, problem, what to do."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints instead of a traceback."""
        return [f"✗ {self}"]


@dataclass(frozen=True)
class PartSource:
    """The source of one part: the student's code, or the reason why no code can be used."""

    lesson: str
    exercise: str
    location: str = ""
    """The notebook and the cell, as shown in messages."""
    setup: str = ""
    """The code of the lesson's setup cell."""
    code: str | None = None
    """The code of the student's solution cell, or None if there is no usable cell."""
    problem: str = ""
    """The reason why there is no usable cell."""
    notebook_missing: bool = False
    """Whether the whole notebook is missing."""


def read_sources(folder: Path, lessons: Mapping[str, Iterable[str]]) -> Iterator[PartSource]:
    """Yield the source of each exercise, read from the notebooks `LESSON/LESSON.ipynb` in a folder.

    `lessons` maps each lesson to its exercises. If a notebook or a cell is unusable, the sources of its
    exercises have no code, and their `problem` says why.
    """
    for lesson, exercises in lessons.items():
        location = f"{lesson}/{lesson}.ipynb"
        try:
            cells = _read_cells(folder, location)
        except FileNotFoundError:
            problem = f"{location}: there is no such notebook in {folder.resolve().name}/; copy it there"
            for exercise in exercises:
                yield PartSource(lesson, exercise, problem=problem, notebook_missing=True)
            continue
        except PartsError as error:
            for exercise in exercises:
                yield PartSource(lesson, exercise, problem=str(error))
            continue
        setup = ""
        solutions: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for cell in cells:
            nbgrader = _nbgrader_metadata(cell)
            name = nbgrader.get("grade_id")
            if name == SETUP:
                setup = _cell_source(cell)
            elif isinstance(name, str) and nbgrader.get("solution") is True:
                solutions[name].append(cell)
        for exercise in exercises:
            where = f"{location}, cell {exercise}"
            match solutions[exercise]:
                case []:
                    problem = (
                        f"{location}: the solution cell {exercise} is missing; download the notebook again "
                        "and copy your code into that cell"
                    )
                case [{"cell_type": "code"} as cell]:
                    yield PartSource(lesson, exercise, where, setup, _cell_source(cell))
                    continue
                case [_]:
                    problem = f"{where}: this is a text cell now; make it a code cell again (press Y)"
                case _:
                    problem = f"{where}: two cells have this name; delete the one that you don't want"
            yield PartSource(lesson, exercise, where, setup, problem=problem)


def keep_sources(sources: Iterable[PartSource], path: Path) -> None:
    """Write the code of these sources to a file. Raises OSError if the file can't be written."""
    entries = [{name: getattr(source, name) for name in _KEPT_FIELDS} for source in sources]
    atomic_write_text(path, json.dumps({"parts": entries}, indent=1, ensure_ascii=False) + "\n")


def kept_sources(path: Path, lessons: Mapping[str, Iterable[str]]) -> list[PartSource]:
    """Return the source of each exercise, read from a file that `keep_sources` wrote.

    `lessons` maps each lesson to its exercises. An exercise that isn't in the file gets a source without
    code, so the reference will be used. Raises PartsError if the file can't be read or wasn't written by
    `keep_sources`.
    """
    try:
        kept = {}
        for entry in json.loads(path.read_text(encoding="utf-8"))["parts"]:
            lesson, exercise, location, setup, code = (str(entry[name]) for name in _KEPT_FIELDS)
            kept[exercise] = PartSource(lesson, exercise, location, setup, code)
    except OSError as error:
        raise PartsError(f"{path}: can't be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise PartsError(
            f"{path}: this file is not a valid parts.json. Pass the folder that contains the lessons, or the "
            "parts.json of a run."
        ) from None
    return [
        kept.get(exercise, PartSource(lesson, exercise))
        for lesson, exercises in lessons.items()
        for exercise in exercises
    ]


def _read_cells(folder: Path, location: str) -> list[dict[str, Any]]:
    """Return the cells of a notebook.

    Raises FileNotFoundError if there is no notebook, and PartsError if it can't be read.
    """
    try:
        text = (folder / location).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise
    except UnicodeDecodeError:
        raise PartsError(
            f"{location}: not a notebook, because it isn't text; download the file again"
        ) from None
    except OSError as error:
        raise PartsError(f"{location}: can't be read: {error.strerror}; check its permissions") from None
    try:
        content = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise PartsError(
            f"{location}: not a notebook, because it isn't valid JSON{line}; it may have been saved only "
            "partly, or merged by git. Download it again or restore a checkpoint"
        ) from None
    cells = content.get("cells") if isinstance(content, dict) else None
    if not isinstance(cells, list):
        raise PartsError(f"{location}: not a notebook, because it has no list of cells; download it again")
    return [cell for cell in cells if isinstance(cell, dict)]


def _nbgrader_metadata(cell: dict[str, Any]) -> dict[str, Any]:
    metadata = cell.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return nbgrader if isinstance(nbgrader, dict) else {}


def _cell_source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    lines = source if isinstance(source, list) else [source]
    return "".join(line for line in lines if isinstance(line, str))
