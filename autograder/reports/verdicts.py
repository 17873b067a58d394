"""What the judge wrote into an autograded notebook: a verdict at each check, and notes on the whole."""

from typing import Any, TypeVar

from nbformat import NotebookNode
from nbgrader.utils import is_grade, is_locked, is_solution
from pydantic import BaseModel, ConfigDict, ValidationError

#: Where a notebook's metadata say how it was graded.
GRADING = "course_grading"

#: How a page calls each verdict.
IN_WORDS = {
    "right": "right",
    "wrong": "not right",
    "unwritten": "not written yet",
    "missing": "not there",
    "forbidden": "calls what it may not",
    "out-of-time": "took too long",
    "kernel-died": "ended its process",
    "error": "could not be checked",
}


class _Note(BaseModel):
    """Something in a notebook's metadata. What it does not know, it passes over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class CheckVerdict(_Note):
    """The verdict on one check cell."""

    name: str
    """The exercise's or prediction's."""
    verdict: str
    """One of `IN_WORDS`."""
    misconceptions: list[str] = []
    """The names of the mistakes that were found, which `course_lib.checks` knows."""
    says: list[str] = []
    """The same in words, as clauses."""
    forbidden: list[str] = []
    """What was called, and may not be."""
    points: float | None = None
    """Those that the check gave; the gradebook knows whether a person gave others."""
    most: float | None = None

    @property
    def in_words(self) -> str:
        """The verdict as a few words that follow the exercise's name."""
        return IN_WORDS.get(self.verdict, self.verdict)


class GradingNotes(_Note):
    """Notes on how a submission was graded."""

    repairs: list[str] = []
    violations: list[str] = []
    """What the sandbox refused."""
    tampering: list[str] = []
    complete: bool = True
    """Whether the grading came to its end."""


Note = TypeVar("Note", bound=_Note)


def is_check(cell: NotebookNode) -> bool:
    """Say whether a cell is one of ours that checks an answer: graded, and locked against students."""
    return bool(cell.cell_type == "code" and is_grade(cell) and is_locked(cell) and not is_solution(cell))


def verdicts_in(notebook: NotebookNode) -> dict[str, CheckVerdict]:
    """Read the verdicts of a notebook's checks, by the names of their cells.

    A check without one is left out, as all are in a notebook that plain nbgrader graded. Outputs of other
    cells come from students, and are never asked.
    """
    findings = notebook.metadata.get(GRADING, {}).get("findings", {})
    found: dict[str, CheckVerdict] = {}
    for cell in filter(is_check, notebook.cells):
        name = cell.metadata.nbgrader.grade_id
        notes = [findings.get(name), *(output.get("metadata", {}).get("course") for output in cell.outputs)]
        verdict = next(filter(None, (_read(CheckVerdict, note) for note in notes)), None)
        if verdict is not None:
            found[name] = verdict
    return found


def notes_on(notebook: NotebookNode) -> GradingNotes | None:
    """Read the notes on a whole notebook; None where there are none."""
    return _read(GradingNotes, notebook.metadata.get(GRADING))


def _read(kind: type[Note], found: Any) -> Note | None:
    try:
        return None if found is None else kind.model_validate(found)
    except ValidationError:
        return None
