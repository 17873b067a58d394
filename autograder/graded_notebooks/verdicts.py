"""Read the verdicts on checks from an autograded notebook."""

from contextlib import suppress

from nbformat import NotebookNode
from nbgrader.utils import is_grade, is_locked, is_solution
from pydantic import BaseModel, ConfigDict, ValidationError

from autograder.graded_notebooks.record import GradingRecord

#: The exceptions that reading a damaged notebook can raise.
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)

#: The words for each verdict on a page.
IN_WORDS = {
    "right": "correct",
    "wrong": "incorrect",
    "unwritten": "not written yet",
    "missing": "missing",
    "forbidden": "calls a forbidden function",
    "out-of-time": "took too long",
    "kernel-died": "ended its process",
    "error": "could not be checked",
}


class CheckVerdict(BaseModel):
    """The verdict on one check cell. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    """The name of the exercise or prediction."""
    verdict: str
    """A key of `IN_WORDS`."""
    misconceptions: list[str] = []
    """The names, in `course_lib.checks`, of the mistakes that were found."""
    statements: list[str] = []
    """The descriptions of these mistakes, as clauses."""
    forbidden: list[str] = []
    """The forbidden functions that were called."""

    @property
    def in_words(self) -> str:
        """The verdict as a few words that follow the exercise's name."""
        return IN_WORDS.get(self.verdict, self.verdict)


def is_check(cell: NotebookNode) -> bool:
    """Return whether a cell is a check of this course: graded code that is locked for students."""
    return bool(cell.cell_type == "code" and is_grade(cell) and is_locked(cell) and not is_solution(cell))


def verdicts_in(notebook: NotebookNode) -> dict[str, CheckVerdict]:
    """Return the verdicts of a notebook's checks, keyed by cell name.

    Checks without a verdict are omitted, such as all checks of a notebook that plain nbgrader graded. Outputs
    of other cells come from students and are never read.
    """
    findings = GradingRecord.of(notebook).findings
    found: dict[str, CheckVerdict] = {}
    for cell in filter(is_check, notebook.cells):
        name = cell.metadata.nbgrader.grade_id
        with suppress(ValidationError, KeyError):
            found[name] = CheckVerdict.model_validate(findings[name])
    return found
