"""The released notebooks of a course, which submissions are compared with, and their hidden tests."""

import os

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import is_locked


class Releases:
    """The releases of a course. Each file and each notebook's hidden tests are read once."""

    def __init__(self, course: CourseDirectory) -> None:
        self._course = course
        self._notebooks: dict[tuple[str, str], NotebookNode] = {}
        self._locked: dict[tuple[str, str], dict[str, str]] = {}

    def folder(self, lesson: str) -> str:
        """Return the folder of a lesson's release."""
        return self._course.format_path(self._course.release_directory, ".", lesson)

    def notebook(self, lesson: str, name: str) -> NotebookNode:
        """Return a released notebook, which must not be changed."""
        if (lesson, name) not in self._notebooks:
            path = os.path.join(self.folder(lesson), f"{name}.ipynb")
            self._notebooks[lesson, name] = nbformat.read(path, as_version=4)
        return self._notebooks[lesson, name]

    def insert_hidden_tests(self, lesson: str, name: str, notebook: NotebookNode) -> None:
        """Replace the locked cells by those of the gradebook, as nbgrader does, but without warnings."""
        locked = self._locked_cells(lesson, name)
        for cell in notebook.cells:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
            if is_locked(cell) and grade_id in locked:
                cell.source = locked[grade_id]

    def with_hidden_tests(self, lesson: str, name: str) -> NotebookNode:
        """Return a copy of a released notebook with its hidden tests."""
        notebook = nbformat.from_dict(self.notebook(lesson, name))
        self.insert_hidden_tests(lesson, name, notebook)
        return notebook

    def _locked_cells(self, lesson: str, name: str) -> dict[str, str]:
        if (lesson, name) not in self._locked:
            with Gradebook(self._course.db_url, self._course.course_id) as gradebook:
                try:
                    cells = gradebook.find_notebook(name, lesson).source_cells
                except MissingEntry:
                    cells = []
                self._locked[lesson, name] = {cell.name: cell.source for cell in cells if cell.locked}
        return self._locked[lesson, name]
