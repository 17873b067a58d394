"""`nbgrader autograde`: repair the notebooks, run them in sandboxes, and grade them in one run."""

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.api import Comment, Grade, Gradebook
from nbgrader.converters import Autograde
from nbgrader.converters.base import BaseConverter, NbGraderException
from nbgrader.preprocessors import SaveAutoGrades
from nbgrader.utils import compute_checksum, determine_grade, is_grade, is_solution, is_task, setenv
from traitlets import Type
from traitlets.utils.importstring import import_item

from autograder.judge.job import Result
from autograder.nbgrader.gradebook import by_cell
from autograder.nbgrader.grading_run import GradingRun
from autograder.nbgrader.preparation import PreparedSubmission
from autograder.nbgrader.replacing_converter import RecordingConverter
from autograder.nbgrader.sandboxed_execute import SandboxedExecute
from autograder.results.local_executor import SharedExecutor
from autograder.submissions.folder import lesson_files, submissions
from course_lib.curriculum.course_file import CourseError


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
        """Run the preprocessors on the repaired notebook of a file.

        Return the resulting notebook as JSON, and the resources. Raises KeyError if the file has no repaired
        notebook.
        """
        notebook = self.repaired[filename]
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

    exporter_class = Type(RepairedNotebookExporter).tag(config=True)

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
            super().init_notebooks()  # This raises an error that suggests similar names.

    def convert_notebooks(self) -> None:
        """Grade all submissions in one run, which continues if a submission fails.

        Raises NbGraderException if the run cannot start, or at the end if any submission was not graded.
        """
        try:
            self._execute = self._configured_execute()
            with self._execute.running(self._workers) as results:
                for step in (*self.sanitize_preprocessors, *self.autograde_preprocessors):
                    self.exporter.register_preprocessor(step)
                GradingRun(self, self.grade, self._execute, results, self._students).run()
        except (CourseError, NbGraderException) as error:
            self.log.error("%s", error)  # Without this, the command would end without a message.
            raise NbGraderException(str(error)) from error

    def _configured_execute(self) -> SandboxedExecute:
        """Create the `SandboxedExecute` of this run, insert it into the preprocessors, and return it.

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
                if not execute.enabled:
                    break
                steps[number] = execute
                self.autograde_preprocessors: list[object] = steps
                return execute
        raise NbGraderException(
            "c.Autograde.autograde_preprocessors has no enabled SandboxedExecute, which runs the notebooks "
            "in sandboxes. Add it, as in the course's nbgrader_config.py."
        )

    def grade(self, prepared: PreparedSubmission, results: Mapping[str, Result], book: Gradebook) -> None:
        """Grade one submission with nbgrader: see `GradingRun`."""
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
            if self.error is not None:  # nbgrader's own error says only that the reason is in the log.
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
            if timestamp is None:
                submission.timestamp = None  # nbgrader would keep the time of an earlier grading.
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

        This replaces nbgrader's own method, which writes the sanitised notebook to a file and reads it again.
        """
        with self.recording_errors(), setenv(NBGRADER_EXECUTION="autograde"):
            BaseConverter.convert_single_notebook(self, notebook_filename)


class SaveScores(SaveAutoGrades):
    """nbgrader's SaveAutoGrades, with one transaction for each notebook instead of one for each cell."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Write the scores of a notebook's cells, and add the comment "No response." to unchanged answers.

        Cells without automatic points, and cells that a person has graded, are marked for manual grading.
        Raises NbGraderException if the gradebook lacks a cell, because the lesson was changed but not
        generated again.
        """
        names = resources["nbgrader"]
        with Gradebook(names["db_url"]) as gradebook:
            submitted = gradebook.find_submission_notebook(
                names["notebook"], names["assignment"], names["student"]
            )
            grades, comments = by_cell(gradebook, submitted, Grade), by_cell(gradebook, submitted, Comment)
            graded = {cell.metadata.nbgrader.grade_id for cell in nb.cells if is_grade(cell)}
            answers = {
                cell.metadata.nbgrader.grade_id for cell in nb.cells if is_solution(cell) or is_task(cell)
            }
            if unknown := sorted((graded - grades.keys()) | (answers - comments.keys())):
                raise NbGraderException(
                    f"the gradebook doesn't have {', '.join(unknown)}. Run `nbgrader generate_assignment "
                    f"{names['assignment']}`, which keeps all grades."
                )
            for cell in nb.cells:
                if is_grade(cell):
                    grade = grades[cell.metadata.nbgrader.grade_id]
                    grade.auto_score, _ = determine_grade(cell, self.log)
                    grade.needs_manual_grade = grade.manual_score is not None or grade.auto_score is None
                if is_solution(cell) or is_task(cell):
                    unchanged = cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
                    comment = comments[cell.metadata.nbgrader.grade_id]
                    comment.auto_comment = "No response." if unchanged and not is_task(cell) else None
            gradebook.db.commit()
        return nb, resources
