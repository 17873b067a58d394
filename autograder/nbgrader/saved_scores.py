"""A snapshot of one submission's automatic scores in the gradebook, to undo a grading that failed.

The snapshot excludes manual scores and comments, because automatic grading never changes those.
"""

from datetime import datetime
from typing import Any

from nbgrader.api import Gradebook, MissingEntry, SubmittedAssignment
from nbgrader.coursedir import CourseDirectory

Snapshot = dict[str, Any]


def save_scores(course: CourseDirectory, lesson: str, student: str) -> Snapshot:
    """Return the automatic scores of a submission as plain JSON; they are empty if it is new."""
    with Gradebook(course.db_url, course.course_id) as gradebook:
        submission = _find(gradebook, lesson, student)
        if submission is None:
            return {"timestamp": None, "notebooks": {}}
        return {
            "timestamp": submission.timestamp.isoformat() if submission.timestamp else None,
            "notebooks": {
                notebook.name: {
                    "penalty": notebook.late_submission_penalty,
                    "grades": {
                        grade.name: [grade.auto_score, grade.needs_manual_grade] for grade in notebook.grades
                    },
                    "comments": {comment.name: comment.auto_comment for comment in notebook.comments},
                }
                for notebook in submission.notebooks
            },
        }


def restore_scores(course: CourseDirectory, lesson: str, student: str, snapshot: Snapshot) -> None:
    """Set the automatic scores of a submission back to a snapshot."""
    with Gradebook(course.db_url, course.course_id) as gradebook:
        submission = _find(gradebook, lesson, student)
        if submission is None:
            return
        timestamp = snapshot["timestamp"]
        submission.timestamp = datetime.fromisoformat(timestamp) if timestamp else None
        for notebook in submission.notebooks:
            saved = snapshot["notebooks"].get(notebook.name, {"penalty": None, "grades": {}, "comments": {}})
            notebook.late_submission_penalty = saved["penalty"]
            for grade in notebook.grades:
                unscored = [None, grade.manual_score is not None]
                grade.auto_score, grade.needs_manual_grade = saved["grades"].get(grade.name, unscored)
            for comment in notebook.comments:
                comment.auto_comment = saved["comments"].get(comment.name)
        gradebook.db.commit()


def _find(gradebook: Gradebook, lesson: str, student: str) -> SubmittedAssignment | None:
    try:
        return gradebook.find_submission(lesson, student)
    except MissingEntry:
        return None
