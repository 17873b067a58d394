"""The grading folder of a course: its lock, its graded notebooks, and its list of submissions that failed."""

import fcntl
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from pydantic import TypeAdapter, ValidationError

from autograder.graded_notebooks.record import GradingRecord
from autograder.submissions.folder import Submission
from course_lib.atomic_files import atomic_write_text

#: The list of submissions that could not be graded. It maps each lesson and student to a reason. An entry is
#: removed when the submission is graded or withdrawn.
NOT_GRADED = "not_graded.json"

_Reasons = TypeAdapter(dict[str, dict[str, str]])


def grading_folder(course: CourseDirectory) -> Path:
    """Return the folder that contains the folder of graded submissions and `not_graded.json`."""
    return Path(course.format_path(course.autograded_directory, "", "")).parent


def graded_folder(course: CourseDirectory, student: str, lesson: str) -> Path:
    """Return the folder of a student's graded notebooks of a lesson."""
    return Path(course.format_path(course.autograded_directory, student, lesson))


@contextmanager
def course_lock(folder: Path, log: logging.Logger) -> Iterator[None]:
    """Lock a course's grading folder, which must exist, while the block runs.

    Only one command at a time can grade, release or write feedback. Raises NbGraderException if another
    process holds the lock. If the folder can't be locked for another reason, a warning is logged and the
    block runs without the lock.

    The folder itself is locked, so no lock file is left behind, and graders with different Unix accounts
    exclude each other. The operating system releases the lock when the process ends, even if it is killed.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NbGraderException(
                f"another nbgrader command is working in {folder}. Wait until it has finished, or end it."
            ) from None
        except OSError as error:
            log.warning("%s cannot be locked (%s). Make sure that nobody else is grading.", folder, error)
        yield
    finally:
        os.close(descriptor)


def grading_records(course: CourseDirectory, submission: Submission) -> list[GradingRecord]:
    """Return the grading record of each of a submission's notebooks."""
    folder = graded_folder(course, submission.student, submission.lesson)
    return [GradingRecord.read(folder / f"{name}.ipynb") for name in submission.notebooks]


def read_not_graded(folder: Path) -> dict[str, dict[str, str]]:
    """Return why submissions were not graded, from a folder's list, keyed by lesson and then by student.

    Returns an empty dict if there is no list. Raises ValueError if the file is damaged, and OSError if it
    can't be read.
    """
    try:
        return _Reasons.validate_json((folder / NOT_GRADED).read_bytes())
    except FileNotFoundError:
        return {}


class NotGraded:
    """The list of a course's submissions that were not graded, in a file in `folder`.

    A file that is damaged or can't be read counts as an empty list. If the file can't be written, a warning
    is logged.
    """

    def __init__(self, folder: Path, log: logging.Logger) -> None:
        self._path, self._log = folder / NOT_GRADED, log

    def load(self) -> dict[str, dict[str, str]]:
        """Return why each submission was not graded, keyed by lesson and then by student."""
        try:
            return read_not_graded(self._path.parent)
        except (ValidationError, OSError):
            return {}

    def add(self, lesson: str, student: str, reason: str) -> None:
        """Record why a submission was not graded."""
        student = student.encode(errors="replace").decode()  # A folder's name can be invalid UTF-8.
        reasons = self.load()
        reasons.setdefault(lesson, {})[student] = reason
        self._save(reasons)

    def remove(self, lesson: str, student: str) -> None:
        """Remove a submission from the list."""
        self.prune(lambda *entry: entry != (lesson, student))

    def prune(self, keep: Callable[[str, str], bool]) -> None:
        """Remove every submission for which `keep(lesson, student)` returns False."""
        if self._path.exists():
            self._save(
                {
                    lesson: {student: reason for student, reason in students.items() if keep(lesson, student)}
                    for lesson, students in self.load().items()
                }
            )

    def _save(self, reasons: dict[str, dict[str, str]]) -> None:
        reasons = {lesson: students for lesson, students in reasons.items() if students}
        text = json.dumps(reasons, indent=1, sort_keys=True) + "\n"
        try:
            if not self._path.exists() or self._path.read_bytes() != text.encode():
                atomic_write_text(self._path, text)
        except OSError as error:
            self._log.warning("%s cannot be updated: %s", self._path, error)
