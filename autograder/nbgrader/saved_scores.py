"""Write a submission's automatic scores to the gradebook, and restore the old scores if grading fails.

The old automatic scores, comments, late penalties and timestamp are restored from a snapshot. Manual scores
and comments aren't restored, because automatic grading never changes them.
"""

from datetime import datetime
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import (
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    MissingEntry,
    SubmittedAssignment,
    SubmittedNotebook,
)
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import SaveAutoGrades
from nbgrader.utils import compute_checksum, determine_grade, is_grade, is_solution, is_task
from sqlalchemy import select

Snapshot = dict[str, Any]


class SaveScores(SaveAutoGrades):
    """nbgrader's SaveAutoGrades, with one transaction for each notebook instead of one for each cell."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Write the scores of a notebook's cells, and add the comment "No response." to unchanged answers.

        Cells without automatic points, and cells that a person has graded, are marked for manual grading.
        Raises NbGraderException if the gradebook lacks a cell, because the lesson wasn't released again.
        """
        names = resources["nbgrader"]
        with Gradebook(names["db_url"]) as gradebook:
            submitted = gradebook.find_submission_notebook(
                names["notebook"], names["assignment"], names["student"]
            )
            grades, comments = _by_cell(gradebook, submitted, Grade), _by_cell(gradebook, submitted, Comment)
            graded = {cell.metadata.nbgrader.grade_id for cell in nb.cells if is_grade(cell)}
            answers = {
                cell.metadata.nbgrader.grade_id for cell in nb.cells if is_solution(cell) or is_task(cell)
            }
            if unknown := sorted((graded - grades.keys()) | (answers - comments.keys())):
                raise NbGraderException(
                    f"the gradebook doesn't have {', '.join(unknown)}. Run `nbgrader generate_assignment "
                    f"{names['assignment']}`, which keeps all grades."
                )
            for cell in nb.cells:
                if is_grade(cell):
                    grade = grades[cell.metadata.nbgrader.grade_id]
                    grade.auto_score, _ = determine_grade(cell, self.log)
                    grade.needs_manual_grade = grade.manual_score is not None or grade.auto_score is None
                if is_solution(cell) or is_task(cell):
                    unchanged = cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
                    comment = comments[cell.metadata.nbgrader.grade_id]
                    comment.auto_comment = "No response." if unchanged and not is_task(cell) else None
            gradebook.db.commit()
        return nb, resources


def save_scores(gradebook: Gradebook, lesson: str, student: str) -> Snapshot:
    """Return a snapshot of a submission's automatic scores, which can be serialised as JSON.

    It includes automatic comments, late penalties and the timestamp. The snapshot is empty if the submission
    is not in the gradebook.
    """
    submission = _find(gradebook, lesson, student)
    if submission is None:
        return {"timestamp": None, "notebooks": {}}
    return {
        "timestamp": submission.timestamp.isoformat() if submission.timestamp else None,
        "notebooks": {
            notebook.name: {
                "penalty": notebook.late_submission_penalty,
                "grades": {
                    name: [grade.auto_score, grade.needs_manual_grade, grade.manual_score]
                    for name, grade in _by_cell(gradebook, notebook, Grade).items()
                },
                "comments": {
                    name: comment.auto_comment
                    for name, comment in _by_cell(gradebook, notebook, Comment).items()
                },
            }
            for notebook in submission.notebooks
        },
    }


def restore_scores(gradebook: Gradebook, lesson: str, student: str, snapshot: Snapshot) -> None:
    """Restore a submission's automatic scores from a snapshot, if the submission is in the gradebook.

    Scores, comments and penalties that are not in the snapshot are removed. If the submission was not in the
    gradebook, it is removed, because exports would count it as 0 points; if a person has graded it since, it
    stays.
    """
    submission = _find(gradebook, lesson, student)
    if submission is None:
        return
    if not snapshot["notebooks"] and not _is_graded_by_hand(submission):
        gradebook.remove_submission(lesson, student)
        return
    timestamp = snapshot["timestamp"]
    submission.timestamp = datetime.fromisoformat(timestamp) if timestamp else None
    for notebook in submission.notebooks:
        saved = snapshot["notebooks"].get(notebook.name, {"penalty": None, "grades": {}, "comments": {}})
        notebook.late_submission_penalty = saved["penalty"]
        for name, grade in _by_cell(gradebook, notebook, Grade).items():
            unscored = [None, grade.manual_score is not None, grade.manual_score]
            grade.auto_score, needs_manual_grade, manual_score = saved["grades"].get(name, unscored)
            if manual_score == grade.manual_score:  # Otherwise a person has graded the cell since then.
                grade.needs_manual_grade = needs_manual_grade
        for name, comment in _by_cell(gradebook, notebook, Comment).items():
            comment.auto_comment = saved["comments"].get(name)
    gradebook.db.commit()


def _by_cell(
    gradebook: Gradebook, notebook: SubmittedNotebook, kind: type[Grade] | type[Comment]
) -> dict[str, Any]:
    """Return a notebook's grades or comments, keyed by cell name, using a single query."""
    query = select(BaseCell.name, kind).join(kind.cell).where(kind.notebook_id == notebook.id)
    return dict(gradebook.db.execute(query).all())


def _is_graded_by_hand(submission: SubmittedAssignment) -> bool:
    return any(
        entry is not None
        for notebook in submission.notebooks
        for entry in (
            *(grade.manual_score for grade in notebook.grades),
            *(grade.extra_credit for grade in notebook.grades),
            *(comment.manual_comment for comment in notebook.comments),
        )
    )


def _find(gradebook: Gradebook, lesson: str, student: str) -> SubmittedAssignment | None:
    try:
        return gradebook.find_submission(lesson, student)
    except MissingEntry:
        return None
