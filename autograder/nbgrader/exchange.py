"""The graders' side of nbgrader's exchange, extended so that no failure loses a release or a submission.

`ExchangeFactory` in nbgrader_config.py selects these classes. nbgrader itself deletes the old files before it
copies the new ones, and stops at the first error.
"""

import glob
import grp
import os
import pwd
import shutil
import stat
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property, partial
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
from nbgrader.utils import ignore_patterns

from autograder.nbgrader.gradebook import open_gradebook
from autograder.nbgrader.replacement import FolderReplacement, owner
from autograder.submissions.folder import refuse_bad_timestamp, refuse_too_deep
from autograder.submissions.reading import UnreadableError, printable, shown
from autograder.submissions.regular_file import read_file
from course_lib.curriculum.course_file import CourseError


def students_of(gradebook: Gradebook, inbound: Path) -> set[str]:
    """Return the ids of the students in the gradebook and of those who submitted from their own account."""
    named = ((path.name.split("+")[0], path) for path in inbound.iterdir())
    return {student.id for student in gradebook.students} | {
        name for name, path in named if _account(path) == name
    }


def impostor(submission: Path, student: str, students: Collection[str]) -> str | None:
    """Return the account that owns a submission in the exchange, or None if it may submit for `student`.

    Any account can create a submission under any student's name. The account of a different student in
    `students` may not submit for this one. If the student has a Unix account, only that account and those of
    graders may. Otherwise, any account that isn't another student's may, because all students share
    one account on some servers.
    """
    account = _account(submission)
    if account in ("", student):
        return None
    if account in students or (_has_account(student) and account not in _graders(submission.parent)):
        return account
    return None


def _has_account(student: str) -> bool:
    try:
        pwd.getpwnam(student)
    except KeyError:
        return False
    return True


def _graders(inbound: Path) -> set[str]:
    """Return the accounts that can read submissions: the folder's owner, its group, and the caller.

    nbgrader lets the group read the folder only if several graders share the course.
    """
    about, found = inbound.stat(), {_account(inbound)}
    with suppress(KeyError):  # In a container, the caller's user id may have no name.
        found.add(pwd.getpwuid(os.geteuid()).pw_name)
    if about.st_mode & stat.S_IRGRP:
        found.update(each.pw_name for each in pwd.getpwall() if each.pw_gid == about.st_gid)
        with suppress(KeyError):
            found.update(grp.getgrgid(about.st_gid).gr_mem)
    return found


def _account(submission: Path) -> str:
    try:
        return owner(submission)
    except OSError:  # The submission has just been deleted.
        return ""


class _CourseExchange(Exchange):
    """An exchange whose folders several graders share, if `groupshared` is set."""

    def ensure_directory(self, path: str, mode: int) -> None:
        """Create a folder of the exchange with this mode, unless it exists.

        With `groupshared`, correct the mode of an existing folder if it belongs to the caller, because the
        folder may be older than the setting. Raises ExchangeError if the folder can't be created, or if the
        caller can't both read and write it.
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
                super().copy_files()  # This raises an ExchangeError that suggests --force.
            with release.replacing():
                super().copy_files()
        except (OSError, RuntimeError) as error:  # RuntimeError: the folder is too large
            self.fail(
                f"{self.coursedir.assignment_id} was not released: {error}. "
                "The previous release, if there was one, was kept."
            )


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
            except (OSError, ValueError) as error:  # ValueError: the student's secret isn't UTF-8
                reason: object = error
                if not Path(folder, "submission_secret.txt").exists():
                    reason = "the submission is not from the exchange. Return the pages in another way."
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
    duedate: datetime | None

    def copy_files(self) -> None:
        """Collect each student's submission. Raises ExchangeError at the end if any was not collected."""
        records, failed = self.src_records, []
        if not records:
            super().copy_files()  # This logs a warning.
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
            # Unprintable characters could control a terminal, and names such as ".." would change a path.
            if not name.isprintable() or name.partition("+")[0] in ("", ".", ".."):
                raise ValueError
            record: dict[str, Any] = super()._path_to_record(path)
        # Any student can create a folder with a bad name. It must not prevent other submissions
        # from being collected.
        except (ValueError, OverflowError):
            problem = "expected STUDENT+LESSON+TIME as the name of a submission. Remove it."
        else:
            account = impostor(Path(path), record["username"], self._students) if self.check_owner else None
            if account is None:
                return record
            problem = (
                f"it was handed in by {account}, in the name of {record['username']}. It is not collected."
            )
        # Use the folder's name as the student's, so that the folder doesn't replace anybody's submission.
        return {"username": name, "filename": name, "timestamp": datetime(1970, 1, 1), "problem": problem}

    def _sort_by_timestamp(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Sort a student's submissions, and set `duedate` to the student's own deadline.

        With --before-duedate, nbgrader calls this for each student, and then chooses the last submission
        before `duedate`. nbgrader itself ignores extensions here.
        """
        if self.before_duedate and self.duedate is not None:
            self.duedate = self._deadlines[records[0]["username"]]
        found: list[dict[str, Any]] = super()._sort_by_timestamp(records)
        return found

    @cached_property
    def _deadlines(self) -> Mapping[str, datetime]:
        """The deadlines, by student. A student without a submission has the deadline of the class."""
        with open_gradebook(self.coursedir) as gradebook:
            lesson = gradebook.find_assignment(self.coursedir.assignment_id)
            due = lesson.duedate
            own = ((submission.student_id, submission.duedate) for submission in lesson.submissions)
            return defaultdict(lambda: due, own)

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        """Copy a submission without following links, which could point to any file that the grader can read.

        Raises UnreadableError if its folders are nested too deep, if it is or contains a link, even one that
        replaces a file during the copy, or if another account replaces the folder. Raises RuntimeError if it
        is too large.
        """
        if os.path.islink(src):
            raise UnreadableError("it is a symbolic link, and links are not followed")
        refuse_too_deep(src)
        if self.get_size(src) > 1000 * self.coursedir.max_dir_size:
            raise RuntimeError(f"it is larger than {self.coursedir.max_dir_size / 1000:g} MB")
        too_large = ignore_patterns(max_file_size=self.coursedir.max_file_size, log=self.log)

        def left_out(folder: str, names: list[str]) -> list[str]:
            for name in names:
                if os.path.islink(os.path.join(folder, name)):
                    raise UnreadableError(f"{shown(name)} is a symbolic link, and links are not followed")
            return list(too_large(folder, names))

        with tempfile.TemporaryDirectory(prefix="collect-") as private:
            copy = Path(private, "submission")
            max_bytes = 1000 * self.coursedir.max_file_size
            copy_file = partial(_copy_regular_file, Path(src), max_bytes)
            shutil.copytree(src, copy, ignore=left_out, copy_function=copy_file)
            # Another account can have replaced the folder since its owner was checked.
            student = Path(src).name.partition("+")[0]
            if self.check_owner and (not os.path.exists(src) or impostor(Path(src), student, self._students)):
                raise UnreadableError("its folder was replaced while it was collected")
            super().do_copy(str(copy), dest, log)

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
        """Restore a student's collected submission if the block raises an error while replacing it."""
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
            yield  # nbgrader keeps the old submission and says so.


def _copy_regular_file(folder: Path, max_bytes: int, source: str, target: str) -> None:
    """Copy `source`, a file in `folder`, to `target`.

    Raises UnreadableError if it is not a regular file, or is larger than `max_bytes`.
    """
    Path(target).write_bytes(read_file(folder, os.path.relpath(source, folder), max_bytes))
    shutil.copystat(source, target, follow_symlinks=False)
