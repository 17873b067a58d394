"""nbgrader's commands, extended so that no failure loses a grade, a graded notebook or a release.

nbgrader deletes the old result of a command before it creates the new one, and has no setting for a command's
converter class. So `install` rebinds the names under which the commands and Formgrader look up these classes.
No other module patches nbgrader.
"""

import os
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import Exporter, NotebookExporter
from nbformat import NotebookNode
from nbgrader import api as gradebook
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps import (
    api,
    autogradeapp,
    dbapp,
    generateassignmentapp,
    generatefeedbackapp,
    zipcollectapp,
)
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.converters.base import BaseConverter, NbGraderException
from nbgrader.utils import setenv
from sqlalchemy import Engine, create_engine
from traitlets import Type
from traitlets.utils.importstring import import_item

from autograder.judge.job import Result
from autograder.nbgrader import commands
from autograder.nbgrader.generate_feedback import CourseGenerateFeedback
from autograder.nbgrader.gradebook import gradebook_file, open_gradebook
from autograder.nbgrader.grading_run import GradingRun
from autograder.nbgrader.preparation import PreparedSubmission
from autograder.nbgrader.releases import Releases
from autograder.nbgrader.replacing_converter import RecordingConverter, ReplacingConverter
from autograder.nbgrader.sandboxed_execute import SandboxedExecute
from autograder.release.lessons import copy_course_files
from autograder.release.solutions import refresh
from autograder.results.local_executor import SharedExecutor
from autograder.submissions.folder import lesson_files, submissions
from autograder.submissions.repair import is_tracked
from course_lib.curriculum.course_file import CourseError, load_curriculum

#: How long Formgrader's workers wait for the next submission, in seconds.
_IDLE_SECONDS = 120.0


def install() -> None:
    """Make nbgrader's commands and Formgrader use this module's converters and the functions in `commands`.

    Also cache the gradebook's database engines, and let Formgrader keep its workers between runs.
    """
    autogradeapp.Autograde = CourseAutograde
    generateassignmentapp.GenerateAssignment = api.GenerateAssignment = CourseGenerateAssignment
    generatefeedbackapp.GenerateFeedback = api.GenerateFeedback = CourseGenerateFeedback
    zipcollectapp.ZipCollectApp.extract_archive_files = commands.extract_archive_files
    zipcollectapp.ZipCollectApp._transfer_files = commands.transfer_files
    dbapp.DbStudentImportApp.start = commands.import_students
    gradebook.create_engine = _gradebook_engine
    api.Autograde = partial(CourseAutograde, workers=SharedExecutor(_IDLE_SECONDS))


@cache
def _gradebook_engine(url: str, **options: Any) -> Engine:
    """Create the engine for a gradebook. Create the file of a new SQLite gradebook with the umask's mode.

    nbgrader opens the gradebook many times, each time with a new engine, which would compile all its SQL
    again. A connection that the database has closed in the meantime is opened again. SQLite itself creates
    files with mode 644 whatever the umask, so that other graders could not write to the gradebook.
    """
    if (file := gradebook_file(url)) is not None:
        with suppress(OSError):  # SQLite itself reports why the file can't be opened.
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o666))
    return create_engine(url, pool_pre_ping=True, **options)


class RepairedNotebookExporter(NotebookExporter):
    """A NotebookExporter that finds repaired notebooks in memory, by the path of the submitted file.

    It preprocesses these notebooks in place and validates each result once, whereas nbconvert copies each
    notebook four times.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.repaired: dict[str, NotebookNode] = {}

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **options: Any
    ) -> tuple[str, dict[str, Any]]:
        """Convert the repaired notebook of a file if there is one, otherwise the file itself."""
        notebook = self.repaired.get(filename)
        if notebook is None:
            return super().from_filename(filename, resources, **options)
        path = Path(filename)
        resources = {**(resources or {}), "metadata": {"name": path.stem, "path": str(path.parent)}}
        resources = self._init_resources(resources)
        for preprocessor in self._preprocessors:
            notebook, resources = preprocessor(notebook, resources)
        nbformat.validate(notebook, relax_add_props=True)
        return nbformat.v4.writes(notebook) + "\n", resources


class CourseAutograde(RecordingConverter, Autograde):
    """`nbgrader autograde` with sandboxed workers: see `GradingRun`.

    If `workers` is given, they are shared with other runs. If `students` is given, only their submissions are
    graded.
    """

    exporter_class = Type(RepairedNotebookExporter, klass=Exporter).tag(config=True)

    def __init__(
        self,
        *arguments: Any,
        workers: SharedExecutor | None = None,
        students: Collection[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._workers, self._students = workers or SharedExecutor(), students

    def init_notebooks(self) -> None:
        """Raise NbGraderException if there are no submissions.

        `GradingRun` finds the submissions itself, because nbgrader would skip those without a notebook.
        """
        if not submissions(self.coursedir):
            super().init_notebooks()  # raises, and suggests similar names

    def convert_notebooks(self) -> None:
        """Grade all submissions in one run, which continues if a submission fails.

        Raises NbGraderException if the run cannot start, or at the end if any submission was not graded.
        """
        try:
            self._execute = self._configured_execute()
            with self._execute.running(self._workers) as results:
                for step in (*self.sanitize_preprocessors, *self.autograde_preprocessors):
                    self.exporter.register_preprocessor(step)
                GradingRun(self, self._execute, results, self._convert, self._students).run()
        except (CourseError, NbGraderException) as error:
            self.log.error("%s", error)  # the command itself ends without a message
            raise NbGraderException(str(error)) from error

    def _configured_execute(self) -> SandboxedExecute:
        """Create the `SandboxedExecute` of this run, and insert it into the preprocessors.

        Raises NbGraderException if the notebooks would not run in sandboxes.
        """
        if self.config.get("Execute", {}).get("enabled", True) is not True:
            raise NbGraderException(
                "--no-execute is not supported, because a student could have changed the outputs in the "
                "submitted notebook. Run the command without it."
            )
        steps: list[object] = [
            import_item(step) if isinstance(step, str) else step for step in self.autograde_preprocessors
        ]
        for number, step in enumerate(steps):
            if isinstance(step, type) and issubclass(step, SandboxedExecute):
                execute = step(parent=self)
                steps[number] = execute
                self.autograde_preprocessors: list[object] = steps
                return execute
        raise NbGraderException(
            "c.Autograde.autograde_preprocessors has no SandboxedExecute, which runs the notebooks in "
            "sandboxes. Add it, as in the course's nbgrader_config.py."
        )

    def _convert(self, prepared: PreparedSubmission, results: Mapping[str, Result], book: Gradebook) -> None:
        """Process one submission with nbgrader, and insert the results of its notebooks, by name.

        Raises the error that stopped it, if any.
        """
        submission, self._gradebook = prepared.submission, book
        self._execute.finished = {name: (prepared.jobs[name], result) for name, result in results.items()}
        self.exporter.repaired = {
            submission.path(name): notebook for name, notebook in prepared.notebooks.items()
        }
        self.assignments = {submission.folder: list(self.exporter.repaired)}
        self.error = None
        try:
            super().convert_notebooks()
        except NbGraderException:
            if self.error is not None:  # nbgrader has logged it, and raises "see the above traceback"
                raise self.error from None
            raise

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        """Prepare a submission's graded folder and its entry in the gradebook. Record and re-raise errors.

        This replaces nbgrader's own method, which opens the gradebook five times.
        """
        with self.recording_errors():
            BaseConverter.init_assignment(self, assignment_id, student_id)
            self._copy_lesson_files(assignment_id, student_id)
            book = self._gradebook
            if self.create_student:
                book.update_or_create_student(student_id)
            source = self._format_source(assignment_id, student_id)
            timestamp = self.coursedir.get_existing_timestamp(source)
            given = {} if timestamp is None else {"timestamp": timestamp}
            submission = book.update_or_create_submission(assignment_id, student_id, **given)
            if timestamp is not None and (late := submission.total_seconds_late) > 0:
                self.log.warning("%s, %s: %s seconds late", student_id, assignment_id, late)
            book.db.commit()

    def _copy_lesson_files(self, assignment_id: str, student_id: str) -> None:
        """Copy the instructor's files into a graded folder, except notebooks and files that students edit."""
        graded = self._format_dest(assignment_id, student_id)
        of_students = self.exclude_overwriting.get(assignment_id, [])
        for name, path in lesson_files(self.coursedir, assignment_id).items():
            if name not in of_students:
                copy = Path(graded, name)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.unlink(missing_ok=True)
                shutil.copy(path, copy)

    def convert_single_notebook(self, notebook_filename: str) -> None:
        """Process a notebook with all preprocessors in one pass. Record and re-raise errors.

        nbgrader's own method writes the sanitised notebook to a file and reads it again.
        """
        with self.recording_errors(), setenv(NBGRADER_EXECUTION="autograde"):
            BaseConverter.convert_single_notebook(self, notebook_filename)


class CourseGenerateAssignment(ReplacingConverter, GenerateAssignment):
    """`nbgrader generate_assignment`, extended to rebuild stale solution notebooks and keep every release."""

    def init_notebooks(self) -> None:
        """Rebuild stale solution notebooks, log their problems, and find the notebooks to release.

        Raises NbGraderException if `course.toml` is not valid or there is nothing to release.
        """
        try:
            for problem in refresh(Path(self.coursedir.root)):
                self.log.error("%s", problem)
        except (CourseError, OSError) as error:
            self.log.error("%s", error)
            raise NbGraderException(str(error)) from None
        super().init_notebooks()

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        """Prepare the folder of the release, and copy the files that all lessons share into it."""
        super().init_assignment(assignment_id, student_id)
        course = Path(self.coursedir.root)
        release = Path(self._format_dest(assignment_id, student_id))
        copy_course_files(course, load_curriculum(course), release)

    def convert_notebooks(self) -> None:
        """Release the lessons, and keep copies of their old and new releases.

        Students may have either release. If a copy cannot be saved, only a warning is logged.
        """
        lessons = [Path(os.path.normpath(source)).name for source in self.assignments]
        self._keep_releases(lessons)
        super().convert_notebooks()
        self._keep_releases(lessons)

    def _keep_releases(self, lessons: list[str]) -> None:
        try:
            for lesson in lessons:
                Releases(self.coursedir).keep(lesson)
        except OSError as error:
            self.log.warning(
                "A copy of the release, for comparison with submissions, could not be saved: %s", error
            )

    def check(self, assignment: str, notebooks: list[str]) -> None:
        """Raise NbGraderException if cells were added to or removed from a lesson with submissions.

        Only cells that nbgrader records in the gradebook count. Nothing is checked if no gradebook is used.
        Raises CourseError if the gradebook can't be opened.
        """
        if self.no_database:
            return
        with open_gradebook(self.coursedir, create=True) as book:
            try:
                known = book.find_assignment(assignment)
            except MissingEntry:
                return
            submitted = len(known.submissions)
            selected = {Path(path).stem for path in notebooks}
            old = {
                f"{notebook.name}: {cell.name}"
                for notebook in known.notebooks
                if self.coursedir.notebook_id == "*" or notebook.name in selected
                for cell in notebook.source_cells
            }
        new = {
            f"{Path(path).stem}: {cell.metadata.nbgrader.grade_id}"
            for path in notebooks
            for cell in nbformat.read(path, as_version=4).cells
            if is_tracked(cell)
        }
        if submitted and old != new:
            changes = [f"{name} was added" for name in sorted(new - old)]
            changes += [f"{name} was removed" for name in sorted(old - new)]
            raise NbGraderException(
                f"{assignment} was not released again, and its old release was kept: {'; '.join(changes)}. "
                "nbgrader cannot add or remove cells of a lesson with submissions, and the gradebook has "
                f"{submitted}. Undo the change in the source, or release it as a lesson with another name."
            )
