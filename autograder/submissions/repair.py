"""Make a notebook that can be graded of what a student handed in, and say what was mended.

The released lesson says which cells there are, in which order, and what is locked in them.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell
from nbgrader.utils import compute_checksum, is_grade, is_locked, is_solution, is_task

from autograder.nbgrader.mark_scheme import TAG as MARK_SCHEME
from autograder.submissions.reading import SubmittedCell, UnreadableError, read_notebook, shown

__all__ = ["Repaired", "UnreadableError", "repair"]

#: What a notebook's metadata call the notes of its grading.
GRADING = "course_grading"

#: Tags by which a cell asks not to be run, or to be forgiven.
EVASIVE_TAGS = {"skip-execution", "raises-exception"}

#: The flags by which nbgrader knows a cell's part in the grading.
FLAGS = ("grade", "locked", "solution", "task", "points")

#: Notes on one notebook. More of them tell nobody anything.
MOST_NOTES = 40

#: How a cell of each kind is made.
_NEW = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass
class Repaired:
    """A notebook that nbgrader takes. Each note is a sentence for the instructor."""

    notebook: NotebookNode
    notes: list[str] = field(default_factory=list)
    """What was mended, and looks like an accident."""
    tampering: list[str] = field(default_factory=list)
    """What was mended, and looks like intention."""


def repair(raw: bytes, released: NotebookNode) -> Repaired:
    """Repair the notebook in `raw`, the bytes of a file, by the released one.

    The same bytes give the same notebook. It has no outputs, all cells that nbgrader knows from the release,
    each once, with the release's metadata and, where locked, its text; and the student's own cells where they
    stood, with nothing of nbgrader's. Raises UnreadableError where there is nothing to grade.
    """
    return _Repair(raw, released).repaired()


@dataclass
class _Placed:
    """A cell of the repaired notebook; `name` is its grade_id, or None."""

    cell: NotebookNode
    name: str | None = None
    id: str | None = None
    """The id that the student's file gives it."""


class _Repair:
    """The work on one notebook."""

    def __init__(self, raw: bytes, released: NotebookNode) -> None:
        self.released = released
        self.submitted = read_notebook(raw)
        self.cells = self.submitted.cells
        self.notes = self.submitted.notes
        self.tampering: list[str] = []
        self.named = {
            cell.metadata.nbgrader.grade_id: cell
            for cell in released.cells
            if is_grade(cell) or is_solution(cell) or is_locked(cell) or is_task(cell)
        }
        self.others = {cell.id: cell for cell in released.cells if cell.id not in self.named}
        course = released.metadata.get("course", {})
        self.lesson, self.version = course.get("lesson"), course.get("version")
        #: A lesson of another release may differ in all that would be suspicious in this one.
        self.same_release = self.submitted.version in (None, self.version)

    def repaired(self) -> Repaired:
        claims = self._claims()
        self._refuse_another_lesson(claims)
        chosen = {name: self._choose(name, places, claims) for name, places in claims.items() if places}
        names = {place: name for name, place in chosen.items()}
        copies = {place: name for name, places in claims.items() for place in places if place not in names}
        placed: list[_Placed] = []
        for place, cell in enumerate(self.cells):
            if place in names:
                placed += self._known(names[place], cell, place)
            else:
                placed.append(self._own(cell, place, copies.get(place)))
        self._put_back_missing(placed)
        self._say_where_checks_come_first(placed)
        self._name_cells(placed)
        notebook = new_notebook(cells=[entry.cell for entry in placed])
        self._set_metadata(notebook)
        return Repaired(notebook, self.notes, self.tampering)

    # --- Which cell is which --------------------------------------------------------------------------------
    def _claims(self) -> dict[str, list[int]]:
        """Find what is, or may be, each cell of the release: by grade_id, else id, else content."""
        claims: dict[str, list[int]] = {name: [] for name in self.named}
        for place, cell in enumerate(self.cells):
            name = (cell.nbgrader or {}).get("grade_id")
            if isinstance(name, str) and name in claims:
                claims[name].append(place)
        taken = {place for places in claims.values() for place in places}
        for recognised, how in ((self._by_id, "cell id"), (self._by_content, "content")):
            for name in [name for name, places in claims.items() if not places]:
                places = [place for place in recognised(name) if place not in taken]
                if places:
                    self.notes.append(f"{name} had lost nbgrader's metadata; it was known by its {how}")
                claims[name] = places
                taken.update(places)
        return claims

    def _by_id(self, name: str) -> list[int]:
        return [place for place, cell in enumerate(self.cells) if cell.id == name]

    def _by_content(self, name: str) -> list[int]:
        released = self.named[name]
        if is_locked(released):
            return [place for place, cell in enumerate(self.cells) if _same(cell.source, released.source)]
        if released.cell_type == "code":
            written = re.compile(
                rf"^(?:(?:async +)?def|class) +{re.escape(name)}\b|^{re.escape(name)} *(?::[^=\n]+)?=(?!=)",
                re.MULTILINE,
            )
            return [
                place
                for place, cell in enumerate(self.cells)
                if cell.kind == "code" and cell.id not in self.others and written.search(cell.source)
            ][-1:]
        return self._below_its_question(name)

    def _below_its_question(self, name: str) -> list[int]:
        """Find an answer in words: it stands below the text that stands above it in the release."""
        index = next(
            index
            for index, cell in enumerate(self.released.cells)
            if cell.metadata.get("nbgrader", {}).get("grade_id") == name
        )
        question = self.released.cells[index - 1] if index else None
        if question is None or question.cell_type != "markdown":
            return []
        return [
            place
            for place, cell in enumerate(self.cells[1:], start=1)
            if cell.kind == "markdown"
            and cell.id not in self.others
            and _same(self.cells[place - 1].source, question.source)
            and not any(_same(cell.source, other.source) for other in self.others.values())
        ][:1]

    def _refuse_another_lesson(self, claims: Mapping[str, Sequence[int]]) -> None:
        """Raise UnreadableError where it answers nothing of this lesson: that must not become a zero."""
        answers = [name for name, cell in self.named.items() if is_solution(cell)]
        if not answers or any(claims[name] for name in answers):
            return
        if self.submitted.lesson not in (None, self.lesson):
            raise UnreadableError(
                f"it is the notebook of lesson {self.submitted.lesson}, handed in as {self.lesson}"
            )
        raise UnreadableError(
            f"none of the cells that lesson {self.lesson} asks for is in it ({', '.join(answers[:3])}"
            f"{', ...' if len(answers) > 3 else ''})"
        )

    def _choose(self, name: str, places: Sequence[int], claims: Mapping[str, Sequence[int]]) -> int:
        """Choose among copies of a cell the one that is graded."""
        if len(places) == 1:
            return places[0]
        if is_locked(self.named[name]):
            chosen = min(places, key=lambda place: self._displaced(name, place, claims))
        else:
            stub = self.named[name].source
            written = [place for place in places if not _same(self.cells[place].source, stub)]
            chosen = (written or places)[-1]
        self.notes.append(
            f"{name} stood there {len(places)} times; cell {chosen + 1} was taken, "
            "and the others are the student's own"
        )
        return chosen

    def _displaced(self, name: str, place: int, claims: Mapping[str, Sequence[int]]) -> tuple[int, bool]:
        """Count the cells of the release that a cell would stand on the wrong side of.

        Of two that are the same in this, the one that kept its id comes first: copies get new ones.
        """
        order = list(self.named)
        wrong = sum(
            (order.index(other) < order.index(name)) != (places[0] < place)
            for other, places in claims.items()
            if other != name and len(places) == 1
        )
        return wrong, self.cells[place].id != name

    # --- What becomes of a cell -----------------------------------------------------------------------------
    def _known(self, name: str, cell: SubmittedCell, place: int) -> list[_Placed]:
        """Give a cell of the release its metadata, type and, where it is locked, text."""
        released = self.named[name]
        self._compare_metadata(name, cell, released)
        if cell.kind != released.cell_type:
            self.notes.append(
                f"{name} was made a {cell.kind} cell; it was turned back into a {released.cell_type} cell"
            )
        new = copy.deepcopy(released)
        if not is_locked(released):
            new.source = cell.source
            if released.cell_type == "markdown" and cell.attachments:
                new.attachments = cell.attachments
        elif not _same(cell.source, released.source):
            return [_Placed(new, name), *self._edited(name, cell, released, place)]
        return [_Placed(new, name)]

    def _edited(self, name: str, cell: SubmittedCell, released: NotebookNode, place: int) -> list[_Placed]:
        """Say that a locked cell was edited. What was written into one that only sets up is kept below it."""
        if _as_its_checksum_says(cell):
            self.notes.append(f"{name} is the one of another release; the present one took its place")
            return []
        if is_grade(released):
            self._suspect(f"{name}, a locked check, was edited; it was put back as released")
            return []
        self.notes.append(
            f"{name}, a locked cell, was edited; it was put back as released, "
            "and what was in it stands below as a cell of the student's own"
        )
        return [self._own(cell, place)]

    def _compare_metadata(self, name: str, cell: SubmittedCell, released: NotebookNode) -> None:
        given, right = cell.nbgrader, released.metadata.nbgrader
        if given is not None and given.get("grade_id") == name:
            for flag in FLAGS:
                if flag in given and flag in right and given[flag] != right[flag]:
                    self._suspect(
                        f"nbgrader's metadata of {name} said {flag}: {shown(given[flag])}, "
                        f"where the release says {shown(right[flag])}"
                    )
            if given.get("schema_version") != right.schema_version:
                self.notes.append(
                    f"nbgrader's metadata of {name} were of version {shown(given.get('schema_version'))}; "
                    f"they were replaced by those of the release"
                )
            elif missing := [flag for flag in FLAGS if flag in right and flag not in given]:
                self.notes.append(f"nbgrader's metadata of {name} lacked {', '.join(missing)}")
        if is_grade(released) and (tags := EVASIVE_TAGS.intersection(cell.tags)):
            self._suspect(f"{name} was tagged {', '.join(sorted(tags))}; the tag was taken off")

    def _own(self, cell: SubmittedCell, place: int, copy_of: str | None = None) -> _Placed:
        """Make a cell of the student's own: nothing of nbgrader's is left on it."""
        claimed = (cell.nbgrader or {}).get("grade_id")
        if claimed is not None and copy_of is None and claimed not in list(self.named):
            self.notes.append(
                f"cell {place + 1} said that it is {shown(claimed)}, which is no cell of this lesson; "
                "it was kept as the student's own"
            )
        run_already = (
            copy_of and is_locked(self.named[copy_of]) and _same(cell.source, self.named[copy_of].source)
        )
        new = _NEW["raw" if run_already else cell.kind](cell.source, id="own")
        if cell.attachments:
            new.attachments = cell.attachments
        released = self.others.get(cell.id)
        if released is not None and released.cell_type == cell.kind:
            new.metadata = copy.deepcopy(released.metadata)
        return _Placed(new, id=cell.id)

    # --- The notebook as a whole ----------------------------------------------------------------------------
    def _put_back_missing(self, placed: list[_Placed]) -> None:
        order = list(self.named)
        for number, name in enumerate(order):
            where = {entry.name: place for place, entry in enumerate(placed) if entry.name}
            if name in where:
                continue
            released = self.named[name]
            place = self._below_what_stood_above(released, placed)
            place = min(place, next((where[later] for later in order[number + 1 :] if later in where), place))
            if (solution := name.removeprefix("check_")) != name and solution in where:
                place = max(place, where[solution] + 1)
            placed.insert(place, _Placed(copy.deepcopy(released), name))
            state = "" if is_locked(released) else ", with nothing written in it"
            self.notes.append(f"{name} was missing; it was put back as released{state}")

    def _below_what_stood_above(self, released: NotebookNode, placed: Sequence[_Placed]) -> int:
        """Find the place below the nearest cell that stands above in the release and is still there."""
        where = {entry.id: place for place, entry in enumerate(placed) if entry.id in self.others}
        where |= {entry.name: place for place, entry in enumerate(placed) if entry.name}
        above = 0
        for cell in self.released.cells:
            if cell is released:
                break
            above = where[cell.id] + 1 if cell.id in where else above
        return above

    def _say_where_checks_come_first(self, placed: Sequence[_Placed]) -> None:
        where = {entry.name: place for place, entry in enumerate(placed) if entry.name}
        for name, place in where.items():
            solution = name.removeprefix("check_")
            if solution != name and where.get(solution, -1) > place:
                self.notes.append(f"{name} stands above {solution}, so it is checked before it is written")

    def _name_cells(self, placed: Sequence[_Placed]) -> None:
        """Give each cell an id that no other has: the release's to its cells, and the others keep theirs."""
        given = [cell.id for cell in self.cells if cell.id is not None]
        if spoilt := len(given) - len({name for name in given if _ID.fullmatch(name)}):
            self.notes.append(f"cells had ids that are no ids, or others' ids ({spoilt}); they got new ones")
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
            self.notes.append(
                f"it was written with the kernel {submitted.kernel}; it is graded with {kernel}"
            )
        if submitted.lesson not in (None, self.lesson):
            self.notes.append(
                f"it says that it is lesson {submitted.lesson}, but has the cells of {self.lesson}"
            )
        if not self.same_release:
            self.notes.append(
                f"it is of release {submitted.version} of the course; it is graded by release {self.version}"
            )
        if submitted.graded:
            self._suspect("it carried the mark of a notebook that is graded already; the mark was taken off")
        self.notes, self.tampering = _at_most(self.notes), _at_most(self.tampering)
        notebook.metadata = copy.deepcopy(self.released.metadata)
        notebook.metadata[GRADING] = {"version": 1, "repairs": self.notes, "tampering": self.tampering}

    def _suspect(self, text: str) -> None:
        (self.tampering if self.same_release else self.notes).append(text)


def _same(text: str, released: str) -> bool:
    """Compare two texts but for spaces at the ends of lines, which editors strip."""
    return _stripped(text) == _stripped(released)


def _stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def _as_its_checksum_says(cell: SubmittedCell) -> bool:
    """Say whether a locked cell is as some release made it."""
    metadata: dict[str, Any] = cell.nbgrader or {}
    if not isinstance(metadata.get("grade_id"), str) or not isinstance(
        metadata.get("points", 0), int | float
    ):
        return False
    node = NotebookNode(
        source=cell.source, cell_type=cell.kind, metadata=NotebookNode(nbgrader=NotebookNode(metadata))
    )
    try:
        return metadata.get("checksum") == compute_checksum(node)
    except (KeyError, UnicodeEncodeError):  # grade without points, or half a character in the name
        return False


def _own_names(number: int) -> Iterator[str]:
    yield f"own-{number}"
    yield from (f"own-{number}-{other}" for other in count(1))


def _at_most(notes: list[str]) -> list[str]:
    more = len(notes) - MOST_NOTES
    return [*notes[:MOST_NOTES], f"and {more} more things of this kind"] if more > 0 else notes
