"""Turn a submitted notebook into one that can be graded, and record the repairs.

The released lesson determines the cells, their order, and which of them are locked.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_notebook
from nbgrader.utils import compute_checksum, is_grade, is_locked, is_solution, is_task

from autograder.submissions.reading import SubmittedCell, UnreadableError, read_notebook, shown

#: The tag of the cells that show graders a mark scheme, and the prefix of their ids.
MARK_SCHEME = "mark-scheme"

#: Tags that would prevent a cell from running, or an error in it from counting.
EVASIVE_TAGS = {"skip-execution", "raises-exception"}

#: The fields of nbgrader's metadata that decide how a cell is graded.
FLAGS = ("grade", "locked", "solution", "task", "points")

#: The maximum number of notes for one notebook.
MAX_NOTES = 40

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass
class RepairedNotebook:
    """A notebook that nbgrader accepts, with notes for the instructor, one sentence each."""

    notebook: NotebookNode
    notes: list[str]
    """Repairs of changes that look accidental."""
    tampering: list[str]
    """Repairs of changes that look intentional."""
    from_another_release: bool
    """Whether any locked cell is from another release."""


def repair(raw: bytes, released: NotebookNode) -> RepairedNotebook:
    """Repair the notebook in `raw`, the bytes of a file, using the released notebook.

    The result is deterministic and has no outputs. It contains every cell that nbgrader tracks exactly once,
    with its released metadata and, if the cell is locked, its released source. The student's own cells keep
    their positions but not their nbgrader metadata. Raises UnreadableError if the file can't be read as a
    notebook, or contains none of the lesson's answer cells.
    """
    return _Repair(raw, released).repaired()


@dataclass
class _PlacedCell:
    """A cell of the repaired notebook. `name` is its grade_id, or None if nbgrader doesn't track the cell."""

    cell: NotebookNode
    name: str | None = None
    id: str | None = None
    """The id in the student's file."""


class _Repair:
    def __init__(self, raw: bytes, released: NotebookNode) -> None:
        self.released, names = _with_names_as_ids(released)
        self.submitted = read_notebook(raw)
        self.cells = [replace(cell, id=names.get(cell.id or "", cell.id)) for cell in self.submitted.cells]
        self.notes = self.submitted.notes
        self.tampering: list[str] = []
        self.from_another_release = False
        self.named = {
            cell.metadata.nbgrader.grade_id: cell for cell in self.released.cells if is_tracked(cell)
        }
        self.others = {cell.id: cell for cell in self.released.cells if not is_tracked(cell)}
        course = released.metadata.get("course", {})
        self.lesson, self.version = course.get("lesson"), course.get("version")
        #: Some differences are suspicious only in a notebook of the current release.
        self.same_release = self.submitted.version in (None, self.version)

    def repaired(self) -> RepairedNotebook:
        claims = self._claims()
        self._refuse_another_lesson(claims)
        chosen = {
            name: self._choose(name, positions, claims) for name, positions in claims.items() if positions
        }
        names = {position: name for name, position in chosen.items()}
        copies = {
            position: name
            for name, positions in claims.items()
            for position in positions
            if position not in names
        }
        placed: list[_PlacedCell] = []
        for position, cell in enumerate(self.cells):
            if position in names:
                placed += self._known(names[position], cell, position)
            else:
                placed.append(self._own(cell, position, copies.get(position)))
        self._restore_missing(placed)
        self._note_early_checks(placed)
        self._name_cells(placed)
        notebook = new_notebook(cells=[entry.cell for entry in placed])
        self._set_metadata(notebook)
        return RepairedNotebook(notebook, self.notes, self.tampering, self.from_another_release)

    # --- Identifying cells --------------------------------------------------------------------------------
    def _claims(self) -> dict[str, list[int]]:
        """Return the positions of the candidates for each released cell that nbgrader tracks, by name."""
        claims: dict[str, list[int]] = {name: [] for name in self.named}
        for position, cell in enumerate(self.cells):
            name = (cell.nbgrader or {}).get("grade_id")
            if isinstance(name, str) and name in claims:
                claims[name].append(position)
        taken = {position for positions in claims.values() for position in positions}
        for recognised, how in ((self._by_id, "cell id"), (self._by_content, "content")):
            for name in [name for name, positions in claims.items() if not positions]:
                positions = [position for position in recognised(name) if position not in taken]
                if positions:
                    self.notes.append(f"{name} had lost nbgrader's metadata; it was recognised by its {how}")
                claims[name] = positions
                taken.update(positions)
        return claims

    def _by_id(self, name: str) -> list[int]:
        return [position for position, cell in enumerate(self.cells) if cell.id == name]

    def _by_content(self, name: str) -> list[int]:
        released = self.named[name]
        if is_locked(released):
            return [
                position for position, cell in enumerate(self.cells) if _same(cell.source, released.source)
            ]
        if released.cell_type == "code":
            written = re.compile(
                rf"^(?:(?:async +)?def|class) +{re.escape(name)}\b|^{re.escape(name)} *(?::[^=\n]+)?=(?!=)",
                re.MULTILINE,
            )
            return [
                position
                for position, cell in enumerate(self.cells)
                if cell.kind == "code" and cell.id not in self.others and written.search(cell.source)
            ][-1:]
        return self._below_its_question(name)

    def _below_its_question(self, name: str) -> list[int]:
        """Return the position of the first Markdown cell below a written answer's question, if any."""
        index = next(
            index
            for index, cell in enumerate(self.released.cells)
            if cell.metadata.get("nbgrader", {}).get("grade_id") == name
        )
        question = self.released.cells[index - 1] if index else None
        if question is None or question.cell_type != "markdown":
            return []
        return [
            position
            for position, cell in enumerate(self.cells[1:], start=1)
            if cell.kind == "markdown"
            and cell.id not in self.others
            and _same(self.cells[position - 1].source, question.source)
            and not any(_same(cell.source, other.source) for other in self.others.values())
        ][:1]

    def _refuse_another_lesson(self, claims: Mapping[str, Sequence[int]]) -> None:
        """Raise UnreadableError if the notebook has no answer cell of the lesson, to avoid grading it 0."""
        answers = [name for name, cell in self.named.items() if is_solution(cell)]
        if not answers or any(claims[name] for name in answers):
            return
        if self.submitted.lesson not in (None, self.lesson):
            raise UnreadableError(
                f"it is the notebook of lesson {self.submitted.lesson}, handed in as {self.lesson}"
            )
        raise UnreadableError(
            f"it has none of the answer cells of lesson {self.lesson} ({', '.join(answers[:3])}"
            f"{', ...' if len(answers) > 3 else ''})"
        )

    def _choose(self, name: str, positions: Sequence[int], claims: Mapping[str, Sequence[int]]) -> int:
        """Return the position of the copy of a cell that should be graded.

        For a locked cell, this is the copy that fits best into the order of the cells. For an answer, it is
        the last copy that isn't empty and differs from the stub or, if there is none, the last copy.
        """
        if len(positions) == 1:
            return positions[0]
        if is_locked(self.named[name]):
            chosen = min(positions, key=lambda position: self._displaced(name, position, claims))
        else:
            stub = self.named[name].source
            sources = {position: self.cells[position].source for position in positions}
            # JupyterLab copies a cell's name into both parts if a student splits the cell.
            written = [at for at, source in sources.items() if source.strip() and not _same(source, stub)]
            chosen = (written or positions)[-1]
        self.notes.append(
            f"{name} occurred {len(positions)} times; cell {chosen + 1} is graded, "
            "and the others were kept as the student's own"
        )
        return chosen

    def _displaced(self, name: str, position: int, claims: Mapping[str, Sequence[int]]) -> tuple[int, bool]:
        """Return a sort key for a copy of a cell. It counts the cells that are on the wrong side of the copy.

        Among equals, a cell that kept its id comes first, because Jupyter gives a copy a new id.
        """
        order = list(self.named)
        wrong = sum(
            (order.index(other) < order.index(name)) != (positions[0] < position)
            for other, positions in claims.items()
            if other != name and len(positions) == 1
        )
        return wrong, self.cells[position].id != name

    # --- Restoring cells -----------------------------------------------------------------------------
    def _known(self, name: str, cell: SubmittedCell, position: int) -> list[_PlacedCell]:
        """Return a cell with its released metadata and type and, if it is locked, its released source.

        If an ungraded locked cell was edited, also return the student's version of it.
        """
        released = self.named[name]
        self._compare_metadata(name, cell, released)
        if cell.kind != released.cell_type:
            self.notes.append(
                f"{name} was a {cell.kind} cell; it was changed back into a {released.cell_type} cell"
            )
        new = copy.deepcopy(released)
        if not is_locked(released):
            new.source = cell.source
            if released.cell_type == "markdown" and cell.attachments:
                new.attachments = cell.attachments
        elif not _same(cell.source, released.source):
            return [_PlacedCell(new, name), *self._edited(name, cell, released, position)]
        return [_PlacedCell(new, name)]

    def _edited(
        self, name: str, cell: SubmittedCell, released: NotebookNode, position: int
    ) -> list[_PlacedCell]:
        """Record that a locked cell was edited or is from another release.

        If it was edited and earns no points, return the student's version as a cell of the student's own.
        """
        if _as_its_checksum_says(cell):
            self.notes.append(f"{name} is from another release; it was replaced by the current one")
            self.from_another_release = True
            return []
        if is_grade(released):
            self._suspect(f"{name}, a locked check, was edited; it was restored")
            return []
        self.notes.append(
            f"{name}, a locked cell, was edited; it was restored, "
            "and the edited source was kept below it as the student's own cell"
        )
        return [self._own(cell, position)]

    def _compare_metadata(self, name: str, cell: SubmittedCell, released: NotebookNode) -> None:
        given, right = cell.nbgrader, released.metadata.nbgrader
        if given is not None and given.get("grade_id") == name:
            for flag in FLAGS:
                if flag in given and flag in right and given[flag] != right[flag]:
                    self._suspect(
                        f"nbgrader's metadata of {name} has {flag}: {shown(given[flag])}, "
                        f"but the release has {shown(right[flag])}"
                    )
            if given.get("schema_version") != right.schema_version:
                self.notes.append(
                    f"nbgrader's metadata of {name} had version {shown(given.get('schema_version'))}; "
                    "it was replaced by the released metadata"
                )
            elif missing := [flag for flag in FLAGS if flag in right and flag not in given]:
                self.notes.append(f"nbgrader's metadata of {name} lacked {', '.join(missing)}")
        if is_grade(released) and (tags := EVASIVE_TAGS.intersection(cell.tags)):
            self._suspect(f"{name} was tagged {', '.join(sorted(tags))}; the tags were removed")

    def _own(self, cell: SubmittedCell, position: int, copy_of: str | None = None) -> _PlacedCell:
        """Convert a cell into one of the student's own, without nbgrader metadata.

        `copy_of` is the name of the released cell that this is a copy of, if a different copy is graded. An
        exact copy of a locked cell becomes a raw cell, so that the code runs only once.
        """
        claimed = (cell.nbgrader or {}).get("grade_id")
        if claimed is not None and copy_of is None and claimed not in list(self.named):
            self.notes.append(
                f"cell {position + 1} claimed to be {shown(claimed)}, which is not a cell of this lesson; "
                "it was kept as the student's own"
            )
        run_already = (
            copy_of and is_locked(self.named[copy_of]) and _same(cell.source, self.named[copy_of].source)
        )
        kind = "raw" if run_already else cell.kind
        # Don't use nbformat's constructors, because they validate each cell.
        code: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
        new = from_dict({"id": "own", "cell_type": kind, "metadata": {}, "source": cell.source, **code})
        if cell.attachments:
            new.attachments = cell.attachments
        released = self.others.get(cell.id)
        if released is not None and released.cell_type == cell.kind:
            new.metadata = copy.deepcopy(released.metadata)
        return _PlacedCell(new, id=cell.id)

    # --- The notebook as a whole ----------------------------------------------------------------------------
    def _restore_missing(self, placed: list[_PlacedCell]) -> None:
        order = list(self.named)
        for number, name in enumerate(order):
            where = _positions(placed)
            if name in where:
                continue
            released = self.named[name]
            position = self._position_of_missing(released, placed)
            position = min(
                position, next((where[later] for later in order[number + 1 :] if later in where), position)
            )
            if (solution := name.removeprefix("check_")) != name and solution in where:
                position = max(position, where[solution] + 1)
            placed.insert(position, _PlacedCell(copy.deepcopy(released), name))
            state = "" if is_locked(released) else ", without an answer"
            self.notes.append(f"{name} was missing; it was restored{state}")

    def _position_of_missing(self, released: NotebookNode, placed: Sequence[_PlacedCell]) -> int:
        """Return the position below the nearest preceding released cell that is still in the notebook."""
        where = {
            entry.name or entry.id: position
            for position, entry in enumerate(placed)
            if entry.name or entry.id in self.others
        }
        above = 0
        for cell in self.released.cells:
            if cell is released:
                break
            above = where[cell.id] + 1 if cell.id in where else above
        return above

    def _note_early_checks(self, placed: Sequence[_PlacedCell]) -> None:
        where = _positions(placed)
        for name, position in where.items():
            solution = name.removeprefix("check_")
            if solution != name and where.get(solution, -1) > position:
                self.notes.append(f"{name} is above {solution}, so it runs before the solution")

    def _name_cells(self, placed: Sequence[_PlacedCell]) -> None:
        """Use the names of tracked cells as their ids. Other cells keep valid ids that are still free."""
        given = [cell.id for cell in self.cells if cell.id is not None]
        if spoilt := len(given) - len({name for name in given if _ID.fullmatch(name)}):
            self.notes.append(f"invalid or duplicate cell ids were replaced: {spoilt}")
        taken = set(self.named)
        wanted = {entry.id for entry in placed}
        for number, entry in enumerate(placed, start=1):
            name = entry.name or entry.id
            if not entry.name and (
                not name or not _ID.fullmatch(name) or name in taken or name.startswith(MARK_SCHEME)
            ):
                name = next(free for free in _own_names(number) if free not in taken | wanted)
            entry.cell.id = name
            taken.add(name)

    def _set_metadata(self, notebook: NotebookNode) -> None:
        submitted = self.submitted
        kernel = self.released.metadata.get("kernelspec", {}).get("name")
        if submitted.kernel not in (None, kernel):
            self.notes.append(f"it uses the kernel {submitted.kernel}; it is graded with {kernel}")
        if submitted.lesson not in (None, self.lesson):
            self.notes.append(
                f"it is marked as lesson {submitted.lesson}, but has the cells of {self.lesson}"
            )
        if not self.same_release:
            self.notes.append(
                f"it is from release {submitted.version} of the course; the grader has release {self.version}"
            )
        if submitted.graded:
            self._suspect("it had the mark of a graded notebook; the mark was removed")
        self.notes, self.tampering = _at_most(self.notes), _at_most(self.tampering)
        notebook.metadata = copy.deepcopy(self.released.metadata)

    def _suspect(self, text: str) -> None:
        (self.tampering if self.same_release else self.notes).append(text)


def is_tracked(cell: NotebookNode) -> bool:
    """Return whether nbgrader tracks a cell, which then has a unique name."""
    return is_grade(cell) or is_solution(cell) or is_locked(cell) or is_task(cell)


def _with_names_as_ids(released: NotebookNode) -> tuple[NotebookNode, dict[str, str]]:
    """Return a copy of a release in which the id of each tracked cell is its grade_id.

    Also return the new ids, keyed by the old ones. Lessons that the course builds already have such ids.
    Cells that were created in JupyterLab have random ids, and before nbformat 4.5, cells had no ids.
    """
    released, names = copy.deepcopy(released), {}
    for number, cell in enumerate(released.cells):
        given = cell.get("id", f"released-{number}")
        cell.id = names[given] = cell.metadata.nbgrader.grade_id if is_tracked(cell) else given
    return released, names


def _positions(placed: Sequence[_PlacedCell]) -> dict[str, int]:
    return {entry.name: position for position, entry in enumerate(placed) if entry.name}


def _same(text: str, released: str) -> bool:
    """Return whether two texts are equal, ignoring whitespace around them and at the ends of their lines."""
    return _stripped(text) == _stripped(released)


def _stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def _as_its_checksum_says(cell: SubmittedCell) -> bool:
    """Return whether a locked cell matches its checksum, and is therefore unchanged since some release."""
    metadata: dict[str, Any] = cell.nbgrader or {}
    grade_id, points = metadata.get("grade_id"), metadata.get("points", 0)
    if not isinstance(grade_id, str) or not isinstance(points, int | float):
        return False
    nbgrader = NotebookNode(nbgrader=NotebookNode(metadata))
    node = NotebookNode(source=cell.source, cell_type=cell.kind, metadata=nbgrader)
    try:
        return metadata.get("checksum") == compute_checksum(node)
    # The metadata has a grade without points, a lone surrogate in the name, or points too large for a float.
    except (KeyError, UnicodeEncodeError, OverflowError):
        return False


def _own_names(number: int) -> Iterator[str]:
    yield f"own-{number}"
    yield from (f"own-{number}-{other}" for other in count(1))


def _at_most(notes: list[str]) -> list[str]:
    more = len(notes) - MAX_NOTES
    return [*notes[:MAX_NOTES], f"and {more} more"] if more > 0 else notes
