"""Read the verdicts of the checks in an autograded notebook."""

from contextlib import suppress

from nbformat import NotebookNode
from nbgrader.utils import is_grade, is_locked, is_solution
from pydantic import TypeAdapter, ValidationError

from autograder.graded_notebooks.record import GradingRecord
from course_lib.checks.engine.findings import Finding

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

_Finding = TypeAdapter(Finding)


def is_check(cell: NotebookNode) -> bool:
    """Return whether a cell is a check of this course: graded code that is locked for students."""
    return bool(cell.cell_type == "code" and is_grade(cell) and is_locked(cell) and not is_solution(cell))


def verdicts_in(notebook: NotebookNode) -> dict[str, Finding]:
    """Return the findings of a notebook's checks, keyed by cell name.

    Checks without a finding, and verdicts that this version of the course doesn't know, are omitted.
    The findings are in the grading record. Outputs, which may come from students, are never read.
    """
    findings = GradingRecord.of(notebook).findings
    found: dict[str, Finding] = {}
    for cell in filter(is_check, notebook.cells):
        name = cell.metadata.nbgrader.grade_id
        with suppress(ValidationError, KeyError):
            found[name] = _Finding.validate_python(findings[name])
    return found
