"""The graders' side of nbgrader's exchange, extended so that no failure loses a release or a submission.

`ExchangeFactory` in nbgrader_config.py selects these classes. nbgrader itself deletes the old files before it
copies the new ones, and stops at the first error.
"""

import glob
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.exchange.default import (
    Exchange,
    ExchangeCollect,
    ExchangeError,
    ExchangeReleaseAssignment,
    ExchangeReleaseFeedback,
)

from autograder.nbgrader.gradebook import open_gradebook
from autograder.nbgrader.replacement import FolderReplacement, owner
from autograder.submissions.folder import refuse_bad_timestamp
from autograder.submissions.reading import UnreadableError, printable
from course_lib.curriculum.course_file import CourseError


def students_of(gradebook: Gradebook, inbound: Path) -> set[str]:
    """Return the students in the gradebook, and those who have handed in something under their own name."""
    named = ((path.name.split("+")[0], path) for path in inbound.iterdir())
    return {student.id for student in gradebook.students} | {
        name for name, path in named if _account(path) == name
    }


def impostor(submission: Path, student: str, students: Collection[str]) -> str | None:
    """Return the account that owns a submission in the exchange, if it is that of another of `students`.

    Any account can create a submission under any student's name. Accounts that belong to no student prove
    nothing: a grader may hand in for a student, and on some servers all students share one account.
    """
    account = _account(submission)
    return account if account != student and account in students else None


def _account(submission: Path) -> str:
    try:
        return owner(submission)
    except OSError:  # It has just been deleted.
        return ""


class _CourseExchange(Exchange):
    """An exchange whose folders several graders share, if `groupshared` is set."""

    def ensure_directory(self, path: str, mode: int) -> None:
        """Create a folder of the exchange with this mode. With `groupshared`, require that it is usable.

        A folder may be older than the setting: if it belongs to the caller, its mode is corrected. Raises
        ExchangeError if the folder belongs to another account and is not writable.
        """
        folder = Path(path)
        try:
            super().ensure_directory(path, mode)
            if self.coursedir.groupshared and folder.stat().st_uid == os.geteuid():
                folder.chmod(stat.S_IMODE(folder.stat().st_mode) | mode)
        except OSError as error:
            self.fail(f"{folder} cannot be created or shared with other graders: {error}")
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            name = owner(folder)
            self.fail(
                f"{folder} belongs to {name}, and you cannot both read and write it. {name} can run "
                f"`chgrp GROUP {folder}` and `chmod g+rwxs {folder}`, where GROUP is the graders' group. See "
                '"Several graders" in the instructor\'s guide.'
            )


class CourseReleaseAssignment(_CourseExchange, ExchangeReleaseAssignment):
    """`nbgrader release_assignment`, extended to keep the old release if releasing again fails."""

    def copy_files(self) -> None:
        """Copy the lesson into the exchange. Raises ExchangeError if that fails."""
        release = FolderReplacement(Path(self.dest_path))
        try:
            release.recover()
            if release.folder.is_dir() and not self.force:
                super().copy_files()  # raises ExchangeError, and suggests --force
            with release.replacing():
                super().copy_files()
        except (OSError, RuntimeError) as error:  # RuntimeError: the folder is too large
            self.fail(f"{self.coursedir.assignment_id} was not released. Any old release was kept: {error}")


class CourseReleaseFeedback(_CourseExchange, ExchangeReleaseFeedback):
    """`nbgrader release_feedback`, extended to report students whose feedback can't be released."""

    src_path: str

    def copy_files(self) -> None:
        """Copy each student's pages into the exchange.

        Raises ExchangeError at the end if a student's pages could not be copied.
        """
        failed = []
        folders = sorted(glob.glob(self.src_path))
        for folder in folders:
            student = Path(folder).parent.name
            self.src_path = glob.escape(folder)
            try:
                super().copy_files()
            except OSError as error:
                reason: object = error
                if not Path(folder, "submission_secret.txt").exists():
                    reason = "it was not handed in through the exchange. Return its pages in another way."
                self.log.error("%s: the feedback was not released: %s", student, reason)
                failed.append(student)
        if failed:
            self.fail(
                f"The feedback of {len(failed)} of {len(folders)} submissions was not released: "
                f"{', '.join(failed)}"
            )


class CourseCollect(_CourseExchange, ExchangeCollect):
    """`nbgrader collect`, extended to keep a collected submission if collecting a newer one fails."""

    src_records: list[dict[str, Any]]
    inbound_path: str

    def copy_files(self) -> None:
        """Collect each student's submission. Raises ExchangeError at the end if any was not collected."""
        records, failed = self.src_records, []
        if not records:
            super().copy_files()  # logs a warning
        for record in records:
            if "problem" in record:
                path = os.path.join(self.inbound_path, record["filename"])
                self.log.error("%s: %s", printable(path), record["problem"])
                failed.append(record["username"])
                continue
            self.src_records = [record]
            try:
                with self._protecting(record):
                    super().copy_files()
            except (OSError, RuntimeError, UnreadableError) as error:  # RuntimeError: the folder is too large
                self.log.error("%s: not collected: %s", record["username"], error)
                failed.append(record["username"])
        if failed:
            self.fail(
                f"{len(failed)} of {len(records)} submissions could not be collected: {', '.join(failed)}"
            )

    def _path_to_record(self, path: str) -> dict[str, Any]:
        name = Path(path).name
        try:
            if not name.isprintable():  # A terminal would interpret the characters.
                raise ValueError
            record: dict[str, Any] = super()._path_to_record(path)
        except ValueError:  # Any student can create a folder with a bad name, which must not stop the others.
            problem = "expected STUDENT+LESSON+TIME as the name of a submission. Remove it."
        else:
            account = impostor(Path(path), record["username"], self._students) if self.check_owner else None
            if account is None:
                return record
            problem = (
                f"it was handed in by {account}, in the name of {record['username']}. It is not collected."
            )
        # As the submission of a student of its own, it doesn't take the place of another one.
        return {"username": name, "filename": name, "timestamp": datetime(1970, 1, 1), "problem": problem}

    @cached_property
    def _students(self) -> set[str]:
        try:
            with open_gradebook(self.coursedir) as gradebook:
                return students_of(gradebook, Path(self.inbound_path))
        except CourseError as error:
            self.log.fatal(str(error))
            raise ExchangeError(str(error)) from None

    @contextmanager
    def _protecting(self, record: dict[str, Any]) -> Iterator[None]:
        """Restore a student's collected submission if the block was to replace it and raised an error."""
        course, student, lesson = self.coursedir, record["username"], self.coursedir.assignment_id
        collected = FolderReplacement(Path(course.format_path(course.submitted_directory, student, lesson)))
        collected.recover()
        old = None
        try:
            refuse_bad_timestamp(collected.folder)
            old = course.get_existing_timestamp(str(collected.folder))
        except UnreadableError:
            if not self.update:
                raise
        newer = self.update and (old is None or record["timestamp"] > old)
        if not collected.folder.is_dir() or newer or (self.before_duedate and record["timestamp"] != old):
            with collected.replacing():
                yield
        else:
            yield  # nbgrader reports that it keeps the old one
