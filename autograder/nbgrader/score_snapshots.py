"""Snapshots of a submission's scores in the gradebook, which are restored if grading fails.

A snapshot contains the automatic scores and comments, late penalties and the timestamp. Manual scores and
comments aren't restored, because automatic grading never changes them.
"""

from datetime import datetime
from typing import Any

from nbgrader.api import Comment, Grade, Gradebook, MissingEntry, SubmittedAssignment

from autograder.nbgrader.gradebook import by_cell

Snapshot = dict[str, Any]


def snapshot_of(gradebook: Gradebook, lesson: str, student: str) -> Snapshot | None:
    """Return a snapshot of a submission's automatic scores, which can be serialised as JSON.

    It includes automatic comments, late penalties and the timestamp. The result is None if the submission is
    not in the gradebook.
    """
    submission = _find(gradebook, lesson, student)
    if submission is None:
        return None
    return {
        "timestamp": submission.timestamp.isoformat() if submission.timestamp else None,
        "notebooks": {
            notebook.name: {
                "penalty": notebook.late_submission_penalty,
                "grades": {
                    name: [grade.auto_score, grade.needs_manual_grade, grade.manual_score]
                    for name, grade in by_cell(gradebook, notebook, Grade).items()
                },
                "comments": {
                    name: comment.auto_comment
                    for name, comment in by_cell(gradebook, notebook, Comment).items()
                },
            }
            for notebook in submission.notebooks
        },
    }


def restore(gradebook: Gradebook, lesson: str, student: str, snapshot: Snapshot | None) -> None:
    """Restore a submission's automatic scores from a snapshot, if the submission is in the gradebook.

    Scores, comments and penalties that are not in the snapshot are removed. A submission that was not in the
    gradebook at the time is removed, because exports would count it as 0 points. It is kept if someone has
    graded it by hand or granted an extension since.
    """
    submission = _find(gradebook, lesson, student)
    if submission is None:
        return
    if snapshot is None:
        if submission.extension is None and not _is_graded_by_hand(submission):
            gradebook.remove_submission(lesson, student)
            return
        snapshot = {"timestamp": None, "notebooks": {}}
    timestamp = snapshot["timestamp"]
    submission.timestamp = datetime.fromisoformat(timestamp) if timestamp else None
    for notebook in submission.notebooks:
        saved = snapshot["notebooks"].get(notebook.name, {"penalty": None, "grades": {}, "comments": {}})
        notebook.late_submission_penalty = saved["penalty"]
        for name, grade in by_cell(gradebook, notebook, Grade).items():
            unscored = [None, grade.manual_score is not None, grade.manual_score]
            grade.auto_score, needs_manual_grade, manual_score = saved["grades"].get(name, unscored)
            if manual_score == grade.manual_score:  # No person has graded the cell since the snapshot.
                grade.needs_manual_grade = needs_manual_grade
        for name, comment in by_cell(gradebook, notebook, Comment).items():
            comment.auto_comment = saved["comments"].get(name)
    gradebook.db.commit()


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
