"""`nbgrader export`, without points for submissions that have not been graded."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import ExportPlugin

from autograder.nbgrader.command_line import logging_errors
from autograder.nbgrader.gradebook import points_after_penalty
from autograder.submissions.folder import submissions
from course_lib.atomic_files import atomic_write_text

#: The columns of nbgrader's own export.
_COLUMNS = (
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"),
    *("raw_score", "late_submission_penalty", "score", "max_score"),
)


class CsvExport(ExportPlugin):
    """The table of nbgrader's CSV export, with empty points for submissions that were never graded.

    nbgrader itself gives them 0 points, as if nothing had been handed in. Its exporter has no method for a
    single row that a subclass could override.
    """

    @logging_errors
    def export(self, gradebook: Gradebook) -> None:
        """Write the grades to `to`, or to grades.csv by default, and report ungraded submissions by name.

        Exits with code 1 if the file can't be written.
        """
        target = Path(self.to or "grades.csv")
        self.log.info("Exporting grades to %s", target)
        course = CourseDirectory(parent=self.parent)
        course.assignment_id = "*"
        found, waiting = submissions(course), []
        rows: list[Sequence[object]] = [_COLUMNS]
        for lesson in gradebook.assignments:
            if not _chosen(lesson.name, self.assignment):
                continue
            graded = {each.student_id: each for each in gradebook.assignment_submissions(lesson.name)}
            never_graded = [
                each.student
                for each in found
                if each.lesson == lesson.name
                and each.student not in graded
                and _chosen(each.student, self.student)
            ]
            waiting += [f"{student} ({lesson.name})" for student in never_graded]
            for student in gradebook.students:
                if not _chosen(student.id, self.student):
                    continue
                submission = graded.get(student.id)
                points: Sequence[object] = [0.0, 0.0, 0.0]
                if submission:
                    penalty = submission.late_submission_penalty or 0.0
                    points = [submission.score, penalty, points_after_penalty(submission.score, penalty)]
                elif student.id in never_graded:
                    points = ["", "", ""]
                handed_in = submission.timestamp if submission else ""
                person = [student.id, student.last_name, student.first_name, student.email]
                rows.append([lesson.name, lesson.duedate, handed_in, *person, *points, lesson.max_score])
        table = io.StringIO(newline="")
        csv.writer(table, lineterminator="\n").writerows(rows)
        atomic_write_text(target, table.getvalue())
        if waiting:
            self.log.warning(
                "Never graded, and therefore without points in %s: %s", target, ", ".join(waiting)
            )


def _chosen(name: str, choice: Sequence[str]) -> bool:
    return not choice or name in map(str, choice)
