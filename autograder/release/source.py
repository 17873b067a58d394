"""Parse a lesson's source: Python in jupytext's percent format, with the role of each cell in its header."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import jupytext
from jupytext.cell_metadata import _JUPYTEXT_CELL_METADATA

from course_lib.curriculum import Lesson
from course_lib.curriculum.course_file import SOURCES, CourseError

#: The roles and their cell types. `# %% build="name"` gives a cell the role `build`.
ROLES = {
    "given": "code",
    "build": "code",
    "predict": "code",
    "check": "code",
    "hints": "markdown",
    "explain": "markdown",
}

#: The allowed tags of cells without a role.
TAGS = {"see"}


@dataclass(frozen=True)
class SourceCell:
    """One cell of a lesson's source."""

    role: str
    """One of `ROLES`, or "see", "code" or "text"."""
    name: str
    """The name that follows the role in the header, or an empty string."""
    text: str
    location: str
    """The file, the line of the header, and the role and the name, for messages."""


def read_source(course: Path, lesson: Lesson) -> list[SourceCell]:
    """Parse the cells of a lesson's source.

    Raises CourseError if the file is missing, a header is invalid or the cells don't match `course.toml`.
    """
    shown = f"{SOURCES}/{lesson.name}/{lesson.name}.py"
    path = course / shown
    if not path.is_file():
        raise CourseError(
            f"{shown}: no such file, but course.toml lists this lesson. Write the file or remove the lesson."
        )
    cells: list[SourceCell] = []
    problems: list[str] = []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"{shown}: cannot be read: {error}") from None
    notebook = jupytext.reads(text, fmt="py:percent")
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if line.startswith("# %%")]
    for number, cell in enumerate(notebook.cells, start=1):
        # jupytext doesn't number the lines, so they are known only if it finds as many cells as this search.
        known = len(lines) == len(notebook.cells)
        where = f"{shown}, line {lines[number - 1]}" if known else f"{shown}, cell {number}"
        header = {key: value for key, value in cell.metadata.items() if key not in _JUPYTEXT_CELL_METADATA}
        try:
            role, name = _role(cell.cell_type, header)
        except ValueError as error:
            first_line = cell.source.strip().partition("\n")[0]
            problems.append(f"{where} ({first_line[:40]!r}): {error}")
            continue
        location = f'{where}, {role}="{name}"' if name else where
        cells.append(SourceCell(role, name, cell.source.strip("\n"), location))
    problems += _mismatches(shown, cells, lesson)
    if problems:
        raise CourseError(problems)
    return cells


def _role(cell_type: str, header: dict[str, object]) -> tuple[str, str]:
    roles = [key for key in header if key in ROLES]
    unknown = [key for key in header if key not in ROLES and key != "tags"]
    if unknown or cell_type not in ("code", "markdown"):
        what = f"the header's {unknown[0]!r}" if unknown else f"a {cell_type} cell"
        raise ValueError(
            f"{what} is not supported. The roles are {', '.join(ROLES)} and tags={sorted(TAGS)}."
        )
    if len(roles) > 1 or (roles and "tags" in header):
        raise ValueError(
            f"a cell has one role, but this one has {' and '.join(header)}. Split it into two cells."
        )
    if not roles:
        tags = header.get("tags", [])
        if not isinstance(tags, list) or not set(tags) <= TAGS or (tags and cell_type != "code"):
            raise ValueError(f"tags={tags!r} is not supported. A code cell may have tags={sorted(TAGS)}.")
        return "see" if tags else {"markdown": "text", "code": "code"}[cell_type], ""
    role, name = roles[0], header[roles[0]]
    if not isinstance(name, str) or not name:
        raise ValueError(f'the role {role} needs a name in quotes: {role}="name"')
    if cell_type != ROLES[role]:
        marker = "# %% [markdown]" if ROLES[role] == "markdown" else "# %%"
        raise ValueError(f'{role}="{name}" must be a {ROLES[role]} cell. Begin it with {marker}')
    return role, name


def _mismatches(shown: str, cells: list[SourceCell], lesson: Lesson) -> list[str]:
    """Return the problems found by comparing the source's cells with course.toml."""
    exercises = [entry.name for entry in lesson.exercises]
    wanted = {
        "build": exercises,
        "predict": [entry.name for entry in lesson.predictions],
        "check": list(lesson.checked),
        "hints": exercises,
        "explain": [entry.name for entry in lesson.explanations],
    }
    found = Counter((cell.role, cell.name) for cell in cells if cell.name)
    problems = [
        f'{shown}: course.toml has {name}, but there is no cell {role}="{name}". Add it.'
        for role, names in wanted.items()
        for name in sorted(names)
        if (role, name) not in found
    ]
    problems += [
        f'{shown}, cell {role}="{name}": course.toml has no such entry. '
        f"It has: {', '.join(sorted(wanted[role])) or 'none'}"
        for role, name in found
        if role in wanted and name not in wanted[role]
    ]
    problems += [
        f'{shown}, cell {role}="{name}": occurs {count} times. Remove all but one.'
        for (role, name), count in found.items()
        if count > 1
    ]
    # Given cells are also restored by name, so their names must differ from all others.
    taken = {*wanted["check"], *wanted["explain"]}
    problems += [
        f'{shown}, cell given="{name}": another cell has the same name. Choose a different one.'
        for role, name in found
        if role == "given" and name in taken
    ]
    built = [cell.name for cell in cells if cell.role == "build"]
    if built != exercises and sorted(built) == sorted(exercises):
        problems.append(
            f"{shown}: expected the exercises in the order of course.toml, {', '.join(exercises)}, "
            f"got {', '.join(built)}. Change one of the two orders."
        )
    return problems
