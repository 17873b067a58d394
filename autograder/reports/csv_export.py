"""`nbgrader export`, without points for submissions that have not been graded."""

from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import CsvExportPlugin

from autograder.submissions.folder import submissions


class CsvExport(CsvExportPlugin):
    """nbgrader's CSV export, with empty points for submissions that were handed in but never graded.

    nbgrader itself gives them 0 points, as if nothing had been handed in.
    """

    def export(self, gradebook: Gradebook) -> None:
        """Write the grades to `to`, or to grades.csv by default, and report ungraded submissions by name."""
        target = Path(self.to or "grades.csv")
        super().export(gradebook)
        course = CourseDirectory(parent=self.parent)
        course.assignment_id = "*"
        found, starts, waiting = submissions(course), [], []
        for lesson in gradebook.assignments:
            graded = {submission.student_id for submission in gradebook.assignment_submissions(lesson.name)}
            for submission in found:
                if submission.lesson == lesson.name and submission.student not in graded:
                    starts.append(f"{lesson.name},{lesson.duedate or ''},,{submission.student},")
                    waiting.append(f"{submission.student} ({lesson.name})")
        if waiting:
            # nbgrader writes the file in the locale's encoding, and doesn't quote names that contain commas.
            rows = target.read_text(encoding="locale").splitlines()
            for number, row in enumerate(rows):
                if row.startswith(tuple(starts)):
                    start, _, _, _, most = row.rsplit(",", 4)
                    rows[number] = f"{start},,,,{most}"
            target.write_text("\n".join(rows) + "\n", encoding="locale")
            self.log.warning(
                "Never graded, and therefore without points in %s: %s", target, ", ".join(waiting)
            )
