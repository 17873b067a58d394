"""How `nbgrader autograde` reads submissions: `c.Autograde.exporter_class` is the class in this file."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException
from nbgrader.utils import is_locked

from autograder.nbgrader import recovery as unfinished
from autograder.nbgrader.lock import claim, let_go_afterwards
from autograder.nbgrader.not_graded import forget_not_graded, load_not_graded, note_not_graded
from autograder.results import prefetch as ahead
from autograder.submissions.folder import (
    Submission,
    do_not_copy,
    masters,
    read_file,
    refuse_bad_timestamp,
    released_notebooks,
    submissions,
)
from autograder.submissions.reading import UnreadableError, shown
from autograder.submissions.repair import GRADING, Repaired, repair


class GradingExporter(NotebookExporter):
    """nbconvert's NotebookExporter, which repairs what it can of a submission, and reports the rest by name.

    nbgrader makes it at the start of a run, when it knows what there is to grade and has not begun.
    """

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._submissions: dict[str, Submission] = {}
        self._released: dict[str, NotebookNode] = {}
        self._locked: dict[tuple[str, str], dict[str, str]] = {}
        """What locked cells say, hidden tests included: by lesson and notebook, then by cell."""
        if isinstance(self.parent, Autograde):
            try:
                self._claim_and_start(self.parent)
            except NbGraderException as error:
                self.log.error("%s", error)  # of itself the command ends without a word
                raise

    def begin(self, converter: Autograde) -> None:
        """Have the workers begin. Called once a run, when it is known what there is to grade."""
        ahead.begin(converter, self._submissions.values(), self._read_or_none)

    def _read_or_none(self, filename: str) -> NotebookNode | None:
        try:
            return self.read(filename).notebook
        except Exception:  # reported when it is its turn; until then, it must not stop the others
            return None

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **options: Any
    ) -> tuple[str, dict[str, Any]]:
        """Convert a notebook: nbgrader calls this for a submission, then for the copy that it made of it."""
        submission = self._submissions.get(os.path.dirname(filename))
        if submission is None:  # nbgrader's own copy
            converted: tuple[str, dict[str, Any]] = super().from_filename(filename, resources, **options)
            if resources is not None and "nbgrader" in resources:
                names = resources["nbgrader"]
                forget_not_graded(self._desk, [(names["assignment"], names["student"])])
            return converted
        try:
            notebook = self.read(filename).notebook
        except Exception as error:
            self._report(submission, _reason(error))
            self._forget_scores(submission)
            # Without what led to it: nbgrader shows the whole traceback.
            raise (error.with_traceback(None) if isinstance(error, UnreadableError) else error) from None
        if not os.path.lexists(filename):
            self._forget_scores(submission)  # nbgrader gave zeros, as it found nothing under the right name
        resources = {} if resources is None else resources
        resources["metadata"] = {"name": Path(filename).stem, "path": os.path.dirname(filename)}
        repaired: tuple[str, dict[str, Any]] = self.from_notebook_node(notebook, resources, **options)
        return repaired

    def read(self, filename: str) -> Repaired:
        """Read a submission, by the path that its notebook should have, and repair it.

        Raises UnreadableError where it cannot be graded.
        """
        submission = self._submissions[os.path.dirname(filename)]
        path = submission.find(Path(filename).stem)
        repaired = repair(read_file(path), self._release_of(submission.lesson, Path(filename).stem))
        self._lock(repaired.notebook, submission.lesson, Path(filename).stem)
        repaired.notes[:0] = [*_renamed(path, filename), *submission.notes]
        repaired.tampering[:0] = submission.tampering
        repaired.notebook.metadata[GRADING] |= {"repairs": repaired.notes, "tampering": repaired.tampering}
        return repaired

    def _lock(self, notebook: NotebookNode, lesson: str, name: str) -> None:
        """Put the hidden tests in already: nbgrader does it too, with a warning for each cell."""
        if (lesson, name) not in self._locked:
            course = self.parent.coursedir
            with Gradebook(course.db_url, course.course_id) as gradebook:
                try:
                    cells = gradebook.find_notebook(name, lesson).source_cells
                except MissingEntry:
                    cells = []
                self._locked[lesson, name] = {cell.name: cell.source for cell in cells if cell.locked}
        for cell in notebook.cells:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
            if is_locked(cell) and grade_id in self._locked[lesson, name]:
                cell.source = self._locked[lesson, name][grade_id]

    def _claim_and_start(self, converter: Autograde) -> None:
        let_go = claim(self._desk)
        try:
            self._start(converter)
        except BaseException:
            let_go()
            raise
        let_go_afterwards(converter, let_go)

    def _start(self, converter: Autograde) -> None:
        if converter.config.get("Execute", {}).get("enabled", True) is not True:
            raise NbGraderException(
                "--no-execute would trust the outputs that students hand in, and a grade is never made of "
                "them; leave it out"
            )
        found = submissions(converter)
        for lesson in {submission.lesson for submission in found}:
            self._require_release(converter, lesson)
        given = {lesson: masters(converter, lesson) for lesson in {each.lesson for each in found}}
        most_bytes = converter.coursedir.max_file_size * 1000
        self._forget_those_gone(converter)
        gradable = [each for each in found if self._can(each, each.look, given[each.lesson], most_bytes)]
        # nbgrader reads the timestamp before it asks for anything.
        gradable = [each for each in gradable if self._can(each, refuse_bad_timestamp, each)]
        do_not_copy(converter, gradable)
        gradable = [each for each in gradable if self._can(each, unfinished.clear, converter, [each])]
        if found and not gradable:
            raise NbGraderException("none of the submissions can be graded")
        self._submissions = {submission.folder: submission for submission in gradable}
        # Notebooks under their right names, there or not: nbgrader would leave a submission without one out.
        converter.assignments = {
            each.folder: [each.path(notebook) for notebook in each.notebooks] for each in gradable
        }
        self.begin(converter)

    def _can(self, submission: Submission, step: Callable[..., object], *arguments: object) -> bool:
        """Take a step with one submission, and say whether it could be taken; if not, it is reported."""
        try:
            step(*arguments)
        except Exception as error:  # whatever a student has handed in, the others are graded
            self._report(submission, _reason(error))
            self._forget_scores(submission)
            # As nbgrader does where it fails: once this is mended, it is to be graded anew.
            course = self.parent.coursedir
            done = course.format_path(course.autograded_directory, submission.student, submission.lesson)
            shutil.rmtree(done, ignore_errors=True)
            return False
        return True

    def _require_release(self, converter: Autograde, lesson: str) -> None:
        course = converter.coursedir
        if released_notebooks(converter, lesson):
            with Gradebook(course.db_url, course.course_id) as gradebook:
                try:
                    gradebook.find_assignment(lesson)
                except MissingEntry:
                    raise NbGraderException(
                        f"The gradebook does not know {lesson} yet. Run `nbgrader generate_assignment "
                        f"{lesson}` first: it writes the lesson anew, as it is, and enters it."
                    ) from None
            return
        folder = os.path.relpath(course.format_path(course.release_directory, ".", lesson), course.root)
        named = "" if course.notebook_id == "*" else f" called {course.notebook_id}"
        raise NbGraderException(
            f"There is no notebook{named} in {folder}, and submissions are compared with it. "
            f"Run `nbgrader generate_assignment {lesson}` first."
        )

    def _release_of(self, lesson: str, notebook: str) -> NotebookNode:
        course = self.parent.coursedir
        path = os.path.join(course.format_path(course.release_directory, ".", lesson), f"{notebook}.ipynb")
        if path not in self._released:
            self._released[path] = nbformat.read(path, as_version=4)
        return self._released[path]

    @property
    def _desk(self) -> Path:
        """The folder of nbgrader_config.py, where the list of what was not graded lies."""
        course = self.parent.coursedir
        return Path(course.format_path(course.autograded_directory, "", "")).parent

    def _report(self, submission: Submission, reason: str) -> None:
        self.log.error("%s, %s: not graded: %s", submission.student, submission.lesson, reason)
        note_not_graded(self._desk, submission.lesson, submission.student, reason)

    def _forget_those_gone(self, converter: Autograde) -> None:
        """Take off the list what is no longer handed in."""
        course = converter.coursedir
        forget_not_graded(
            self._desk,
            [
                (lesson, student)
                for lesson, students in load_not_graded(self._desk).items()
                for student in students
                if not os.path.lexists(course.format_path(course.submitted_directory, student, lesson))
            ],
        )

    def _forget_scores(self, submission: Submission) -> None:
        """Leave no score where nothing was graded: neither a zero, nor that of an earlier submission.

        What a person gave stays.
        """
        course = self.parent.coursedir
        with Gradebook(course.db_url, course.course_id) as gradebook:
            for name in submission.notebooks:
                try:
                    graded = gradebook.find_submission_notebook(name, submission.lesson, submission.student)
                except (MissingEntry, UnicodeEncodeError):  # such a name is in no gradebook
                    continue
                graded.late_submission_penalty = None
                for grade in graded.grades:
                    grade.auto_score = None
                    grade.needs_manual_grade = grade.manual_score is not None
                for comment in graded.comments:
                    comment.auto_comment = None
            gradebook.db.commit()


def _reason(error: Exception) -> str:
    known = isinstance(error, UnreadableError | OSError)
    return str(error) if known else f"it cannot be read ({type(error).__name__}: {shown(str(error))})"


def _renamed(path: Path, filename: str) -> list[str]:
    """Say that a notebook was handed in under another name."""
    if path == Path(filename):
        return []
    name = shown(os.path.relpath(path, os.path.dirname(filename)))
    return [f"it was handed in as {name}, not {os.path.basename(filename)}"]
