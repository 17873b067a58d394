"""`nbgrader generate_assignment`, extended to replace releases atomically and to name exercises in stubs."""

import os
import re
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.api import MissingEntry
from nbgrader.converters import GenerateAssignment
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import ClearSolutions
from traitlets import Dict, Unicode

from autograder.nbgrader.gradebook import open_gradebook
from autograder.nbgrader.releases import Releases
from autograder.nbgrader.replacing_converter import ReplacingConverter
from autograder.release.lessons import copy_course_files
from autograder.release.solutions import refresh
from autograder.submissions.repair import is_tracked
from course_lib.curriculum.course_file import CourseError, load_curriculum
from course_lib.curriculum.stubs import UNWRITTEN

#: The indented text that nbgrader inserts in place of each solution. A named stub then replaces it.
_PLACEHOLDER = "a stub without a name"

#: The marker of a solution: `### BEGIN SOLUTION package.module:function` or `...:Class.method`.
_REGION = re.compile(r"BEGIN SOLUTION \S+:(\S+)")


class CourseGenerateAssignment(ReplacingConverter, GenerateAssignment):
    """`nbgrader generate_assignment`, extended to rebuild stale solution notebooks and keep every release."""

    def init_notebooks(self) -> None:
        """Rebuild stale solution notebooks, log their problems, and find the notebooks to release.

        Raises NbGraderException if `course.toml` is not valid, if a lesson to release has an invalid
        misconception or names that the checks don't know, or if there is nothing to release.
        """
        course = Path(self.coursedir.root)
        try:
            for problem in refresh(course):
                self.log.error("%s", problem)
            super().init_notebooks()
            lessons = [each for each in load_curriculum(course).lessons if each.name in self._lessons()]
            # Import this module here, because it imports torch, which takes seconds, and all of nbgrader's
            # commands load this file.
            from autograder.release.consistency import inconsistencies

            if problems := inconsistencies(lessons):
                raise CourseError(problems)
        except (CourseError, OSError) as error:
            self.log.error("%s", error)
            raise NbGraderException(str(error)) from None

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
        lessons = self._lessons()
        self._keep_releases(lessons)
        super().convert_notebooks()
        self._keep_releases(lessons)

    def _lessons(self) -> list[str]:
        return [Path(os.path.normpath(source)).name for source in self.assignments]

    def _keep_releases(self, lessons: list[str]) -> None:
        try:
            for lesson in lessons:
                Releases(self.coursedir).keep(lesson)
        except OSError as error:
            self.log.warning(
                "The copy of the students' version in autograder/releases/ could not be saved: %s. Correct "
                "this, and run the command again.",
                error,
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
                f"{assignment} was not generated again, and its old version was kept: {'; '.join(changes)}. "
                "nbgrader cannot add or remove cells of a lesson with submissions or extensions, and the "
                f"gradebook has {submitted}. Undo the change in the source, or release it as a lesson with "
                "another name."
            )


class NamedStubs(ClearSolutions):
    """nbgrader's ClearSolutions, with a separate stub for each function or method.

    Each stub raises a NotImplementedError that names its function or method, lesson and exercise. A
    prediction is set to None.
    """

    code_stub = Dict({"python": _PLACEHOLDER}).tag(config=True)
    text_stub = Unicode("*Your answer here.*").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Remove the solutions from a notebook, and the metadata that only the solution notebook needs."""
        self._lesson = nb.metadata.course.lesson
        self._exercises = [cell.id for cell in nb.cells if _REGION.search(cell.source)]
        nb.metadata.course.pop("inputs", None)
        return super().preprocess(nb, resources)

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], cell_index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Remove the solutions from one cell, then insert its stubs in order."""
        regions = _REGION.findall(cell.source)
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        if cell.cell_type == "code" and not regions:
            cell.source = cell.source.replace(_PLACEHOLDER, f"{cell.id} = None  # your number here")
        for name in regions:
            cell.source = cell.source.replace(_PLACEHOLDER, self._stub(cell.id, name), 1)
        return cell, resources

    def _stub(self, exercise: str, name: str) -> str:
        number, count = self._exercises.index(exercise) + 1, len(self._exercises)
        return (
            f'raise NotImplementedError("{name} {UNWRITTEN}: '
            f'lesson {self._lesson[:2]}, exercise {number} of {count}")'
        )
