"""One run of `nbgrader autograde`: read, repair and run the submissions, and have nbgrader write the grades.

If anything fails for a submission, its earlier grade and graded files stay as they were, the submission is
reported by name, and the others are graded.
"""

import glob
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters.base import BaseConverter, NbGraderException
from sqlalchemy.exc import DBAPIError

from autograder.judge.job import NotComputedError, Result
from autograder.nbgrader.gradebook import error_message, open_gradebook
from autograder.nbgrader.grading_folder import (
    NotGraded,
    course_lock,
    graded_folder,
    grading_folder,
    grading_records,
)
from autograder.nbgrader.preparation import Preparation, PreparedSubmission
from autograder.nbgrader.replacement import FolderReplacement
from autograder.nbgrader.sandboxed_execute import SandboxedExecute
from autograder.nbgrader.score_snapshots import Snapshot, restore, snapshot_of
from autograder.results.results import Results
from autograder.submissions.folder import Submission, released_notebooks, submissions
from autograder.submissions.reading import UnreadableError, shown
from course_lib.curriculum.course_file import CourseError

#: The maximum number of attempts to grade a submission whose files change in the meantime.
_ATTEMPTS = 3

#: The errors whose text is a message for the instructor.
_EXPECTED = (CourseError, UnreadableError, OSError, NbGraderException, NotComputedError, DBAPIError)


class _FilesChangedError(Exception):
    """The error raised if the files of a submission have changed since they were read."""


class GradingRun:
    """A run that grades all submissions selected by the options of a converter.

    `grade` writes the graded notebooks and the grade of one submission. Its arguments are the submission, the
    results of its notebooks, by name, and the gradebook. If `students` is given, only their submissions are
    graded.
    """

    def __init__(
        self,
        converter: BaseConverter,
        grade: Callable[[PreparedSubmission, Mapping[str, Result], Gradebook], None],
        execute: SandboxedExecute,
        results: Results,
        students: Collection[str] | None,
    ) -> None:
        self._write_grade, self._force = grade, converter.force
        self._course, self._log = converter.coursedir, converter.log
        self._results, self._students = results, students
        self._not_graded = NotGraded(grading_folder(self._course), self._log)
        self._failed: list[str] = []
        self._preparation = Preparation(self._course, execute)
        self._stale: Counter[str] = Counter()
        """The number of submissions, by lesson, that were graded with different checks or limits."""

    def run(self) -> None:
        """Grade all submissions that need grading.

        Raises NbGraderException if the run cannot start, or if any submission was not graded. Raises
        CourseError if the gradebook can't be opened.
        """
        with course_lock(grading_folder(self._course), self._log):
            found = [
                submission
                for submission in submissions(self._course)
                if self._students is None or submission.student in self._students
            ]
            for lesson in sorted({submission.lesson for submission in found}):
                self._require_release(lesson)
            self._not_graded.prune(self._is_handed_in)
            due = [submission for submission in found if self._is_due(submission)]
            self._results.expect(sum(len(submission.notebooks) for submission in due))
            with open_gradebook(self._course) as gradebook:
                for prepared in self._preparation.prepare_ahead(due, self._results, self._reporting):
                    with self._reporting(prepared.submission):
                        self._grade(prepared, gradebook)
            self._report_stale()
        if self._failed:
            raise NbGraderException(
                f"{len(self._failed)} of {len(found)} submissions could not be graded, and were left as they "
                f"were: {', '.join(self._failed)}"
            )

    # --- Submissions to grade ------------------------------------------------------------------------------
    def _require_release(self, lesson: str) -> None:
        if not released_notebooks(self._course, lesson):
            folder = os.path.relpath(self._preparation.releases.folder(lesson), self._course.root)
            named = "" if self._course.notebook_id == "*" else f" called {self._course.notebook_id}"
            raise NbGraderException(
                f"there is no notebook{named} in {folder} to compare submissions with. "
                f"Run `nbgrader generate_assignment {lesson}` first."
            )
        with open_gradebook(self._course) as gradebook:
            try:
                gradebook.find_assignment(lesson)
            except MissingEntry:
                raise NbGraderException(
                    f"the gradebook has no lesson {lesson} yet. Run `nbgrader generate_assignment {lesson}` "
                    "first, which releases the lesson and adds it to the gradebook."
                ) from None

    def _is_handed_in(self, lesson: str, student: str) -> bool:
        return os.path.lexists(self._course.format_path(self._course.submitted_directory, student, lesson))

    def _is_due(self, submission: Submission) -> bool:
        """Roll back a submission's interrupted grading, inspect its files, and return whether to grade it."""
        with self._reporting(submission):
            replacement = FolderReplacement(
                graded_folder(self._course, submission.student, submission.lesson)
            )
            if replacement.recover(partial(self._restore, submission)):
                self._log.warning("Undid the changes of an interrupted run to %s", replacement.folder)
            self._preparation.inspect(submission)
            records = grading_records(self._course, submission)
            if self._force or not all(record.complete for record in records):
                return True
            if {record.handed_in for record in records} != {submission.digest()}:
                return True
            if any(
                record.depends_on is not None
                and not self._preparation.is_current(submission.lesson, name, record.depends_on)
                for name, record in zip(submission.notebooks, records, strict=True)
            ):
                self._stale[submission.lesson] += 1
            self._log.info("Skipping existing assignment: %s", replacement.folder)
            self._not_graded.remove(submission.lesson, submission.student)
        return False

    def _report_stale(self) -> None:
        for lesson, count in sorted(self._stale.items()):
            self._log.warning(
                "%s: checks, points or limits have changed since %d of its submissions were graded. "
                "These keep their grades. `course regrade %s` shows what would change.",
                lesson,
                count,
                lesson,
            )

    # --- Grading --------------------------------------------------------------------------------------------
    def _grade(self, prepared: PreparedSubmission, gradebook: Gradebook) -> None:
        """Grade a submission, and grade it again if its files change while it is being graded.

        Raises NotComputedError if one of its notebooks can't be run, and UnreadableError if its files change
        at every attempt.
        """
        submission = prepared.submission
        for attempt in range(_ATTEMPTS):
            if attempt > 0:
                self._preparation.inspect(submission)
                prepared = self._preparation.prepare(submission, self._results)
            results = {name: self._result(prepared, name) for name in prepared.jobs}
            try:
                self._replace(prepared, results, gradebook)
            except _FilesChangedError:
                continue
            self._not_graded.remove(submission.lesson, submission.student)
            return
        raise UnreadableError(
            f"its files changed {_ATTEMPTS} times while it was graded; run this command again"
        )

    def _result(self, prepared: PreparedSubmission, name: str) -> Result:
        result = self._results.get(prepared.source, prepared.jobs[name])
        student, progress = prepared.submission.student, self._results.progress
        self._log.info("%s, %s: ran in %.1f s. %s.", student, name, result.seconds, progress)
        return result

    def _replace(
        self, prepared: PreparedSubmission, results: Mapping[str, Result], gradebook: Gradebook
    ) -> None:
        """Replace a submission's grade and graded files. If that fails, restore the earlier ones.

        Raises _FilesChangedError if the submission has changed since it was read.
        """
        submission, course = prepared.submission, self._course
        graded_again = {f"{name}.ipynb" for name in submission.notebooks}
        ignored = course.ignore
        with FolderReplacement(graded_folder(self._course, submission.student, submission.lesson)).replacing(
            snapshot_of(gradebook, submission.lesson, submission.student),
            None if course.notebook_id == "*" else lambda _, names: graded_again.intersection(names),
            partial(self._restore, submission),
        ):
            refused = {submission.folder} if submission.all_refused else submission.refused
            course.ignore = [*ignored, *map(glob.escape, refused)]
            try:
                self._write_grade(prepared, results, gradebook)
                if submission.digest() != prepared.digest:
                    raise _FilesChangedError
            finally:
                course.ignore = ignored
                gradebook.db.remove()  # The next submission starts with a new session.

    def _restore(self, submission: Submission, snapshot: Snapshot | None) -> None:
        with open_gradebook(self._course) as gradebook:
            restore(gradebook, submission.lesson, submission.student, snapshot)

    @contextmanager
    def _reporting(self, submission: Submission) -> Iterator[None]:
        """Catch an error in the block, and report the submission by name, so that the run can continue."""
        try:
            yield
        except Exception as error:
            if isinstance(error, _EXPECTED):
                reason = error_message(error)
            else:
                reason = f"{type(error).__name__}: {shown(str(error))}"
            self._log.error("%s, %s: not graded: %s", submission.student, submission.lesson, reason)
            self._failed.append(f"{submission.student} ({submission.lesson})")
            self._not_graded.add(submission.lesson, submission.student, reason)
