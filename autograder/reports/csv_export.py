"""`nbgrader export`, without points for submissions that have not been graded."""

from collections.abc import Sequence
from pathlib import Path

from nbgrader.api import Gradebook

from autograder.nbgrader.gradebook import has_points, points_after_penalty
from autograder.reports.exporter import CourseExporter, without_formula, write_csv
from autograder.submissions.folder import submissions

#: The columns of nbgrader's own export.
_COLUMNS = (
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"),
    *("raw_score", "late_submission_penalty", "score", "max_score"),
)


class CsvExport(CourseExporter):
    """An exporter of nbgrader's CSV table that leaves the points of ungraded submissions empty.

    nbgrader itself exports 0 points for them, as if nothing had been handed in. This class computes all
    rows, because nbgrader's exporter has no method for a single row that a subclass could override.
    """

    def write(self, gradebook: Gradebook) -> None:
        """Write the grades to `to`, or to grades.csv by default, and warn about ungraded submissions."""
        target = Path(self.to or "grades.csv")
        self.log.info("Exporting grades to %s", target)
        found, waiting = submissions(self.course), []
        rows: list[Sequence[object]] = [_COLUMNS]
        for lesson in gradebook.assignments:
            if not self.wants_lesson(lesson.name):
                continue
            known = {each.student_id: each for each in gradebook.assignment_submissions(lesson.name)}
            # A lesson without graded cells has no points to wait for.
            graded = {
                student: each for student, each in known.items() if has_points(each) or not lesson.max_score
            }
            never_graded = [
                each.student
                for each in found
                if each.lesson == lesson.name
                and each.student not in graded
                and self.wants_student(each.student)
            ]
            waiting += [f"{student} ({lesson.name})" for student in never_graded]
            for student in gradebook.students:
                if not self.wants_student(student.id):
                    continue
                submission = graded.get(student.id)
                points: Sequence[object] = [0.0, 0.0, 0.0]
                if submission:
                    penalty = submission.late_submission_penalty or 0.0
                    score = points_after_penalty(submission.score, penalty)
                    points = [round(submission.score, 9), round(penalty, 9), score]
                elif student.id in never_graded:
                    points = ["", "", ""]
                handed_in = known[student.id].timestamp if student.id in known else ""
                person = [student.id, student.last_name, student.first_name, student.email]
                rows.append([lesson.name, lesson.duedate, handed_in, *person, *points, lesson.max_score])
            self.warn_of_unmarked(gradebook, lesson.name, "the points of these answers aren't final")
        write_csv(target, [[without_formula(value) for value in row] for row in rows])
        if waiting:
            self.log.warning(
                "Not graded yet, and therefore without points in %s: %s", target, ", ".join(waiting)
            )
