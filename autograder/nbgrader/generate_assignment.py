"""`nbgrader generate_assignment`, extended to keep the old release until the new one is complete."""

import os
from pathlib import Path

import nbformat
from nbgrader.api import MissingEntry
from nbgrader.converters import GenerateAssignment
from nbgrader.converters.base import NbGraderException

from autograder.nbgrader.gradebook import open_gradebook
from autograder.nbgrader.releases import Releases
from autograder.nbgrader.replacing_converter import ReplacingConverter
from autograder.release.lessons import copy_course_files
from autograder.release.solutions import refresh
from autograder.submissions.repair import is_tracked
from course_lib.curriculum.course_file import CourseError, load_curriculum


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
        """Release the lessons. Keep copies of their old and new releases, because students may have either.

        If a copy cannot be saved, only a warning is logged.
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
                "nbgrader cannot add or remove cells of a lesson with submissions or extensions, and the "
                f"gradebook has {submitted}. Undo the change in the source, or release it as a lesson with "
                "another name."
            )
