"""The base class of this course's exporters for `nbgrader export`."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import ExportPlugin

from course_lib.atomic_files import atomic_write_text

#: The first characters that make a spreadsheet interpret a cell as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

#: The maximum number of students whom a warning names.
_NAMED = 10


class CourseExporter(ExportPlugin):
    """An exporter that logs errors that its user can correct. Subclasses implement `write`."""

    def export(self, gradebook: Gradebook) -> None:
        """Write the export. If that raises OSError or ValueError, log the error and exit with code 1.

        The same happens if the gradebook has no lesson with a name in `--assignment`.
        """
        try:
            known = [lesson.name for lesson in gradebook.assignments]
            if unknown := [name for name in map(str, self.assignment) if name not in known]:
                raise ValueError(
                    f"the gradebook has no lesson {', '.join(unknown)}; it has: {', '.join(known) or 'none'}"
                )
            self.write(gradebook)
        except (OSError, ValueError) as error:
            self.log.error("%s", error)
            raise SystemExit(1) from None

    def write(self, gradebook: Gradebook) -> None:
        """Write the export to the path in the option `to`, or to a default path."""
        raise NotImplementedError

    @property
    def course(self) -> CourseDirectory:
        """The folders of the course, for all lessons."""
        return CourseDirectory(parent=self, assignment_id="*")

    def warn_of_unmarked(self, gradebook: Gradebook, lesson: str, effect: str) -> None:
        """Log which students have answers that a person still has to mark, and the `effect` of that."""
        waiting = sorted(
            submission.student_id
            for submission in gradebook.assignment_submissions(lesson)
            if submission.needs_manual_grade and self.wants_student(submission.student_id)
        )
        if waiting:
            names = ", ".join(waiting[:_NAMED])
            more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
            self.log.warning("%s: answers of %s%s still have to be marked: %s", lesson, names, more, effect)

    def wants_student(self, student: str) -> bool:
        """Return whether to export a student. Without the option `--student`, all students are exported."""
        return not self.student or student in map(str, self.student)

    def wants_lesson(self, lesson: str) -> bool:
        """Return whether to export a lesson. Without the option `--assignment`, all lessons are exported."""
        return not self.assignment or lesson in map(str, self.assignment)


def without_formula(value: object) -> object:
    """Return a value of a table, with an apostrophe before text that spreadsheets would read as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def write_csv(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows to a CSV file, atomically."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    atomic_write_text(path, text.getvalue())
