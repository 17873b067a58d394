"""The released notebooks of a course, for comparison with submissions, and their hidden tests.

Each release is kept in `autograder/releases/LESSON/DIGEST/`, because students may have any of them.
"""

import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.api import MissingEntry
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import is_grade, is_locked

from autograder.nbgrader.gradebook import open_gradebook
from autograder.nbgrader.grading_folder import grading_folder
from course_lib.atomic_files import atomic_write

_KEPT = "releases"


@dataclass(frozen=True)
class GradebookCells:
    """The gradebook's information about the cells of a notebook, by cell name."""

    locked: dict[str, str]
    """The sources of the locked cells, including hidden tests."""
    points: dict[str, float]


class Releases:
    """The releases of a course. Released notebooks, and their cells in the gradebook, are cached."""

    def __init__(self, course: CourseDirectory) -> None:
        self._course = course
        self._notebooks: dict[tuple[str, str], NotebookNode] = {}
        self._earlier: dict[tuple[str, str], list[NotebookNode]] = {}
        self._graded: dict[tuple[str, str], GradebookCells] = {}

    def folder(self, lesson: str) -> str:
        """Return the folder of a lesson's release."""
        return self._course.format_path(self._course.release_directory, ".", lesson)

    def notebook(self, lesson: str, name: str) -> NotebookNode:
        """Return a released notebook. It is cached, so the caller must not change it."""
        if (lesson, name) not in self._notebooks:
            path = os.path.join(self.folder(lesson), f"{name}.ipynb")
            self._notebooks[lesson, name] = nbformat.read(path, as_version=4)
        return self._notebooks[lesson, name]

    def earlier(self, lesson: str, name: str) -> Sequence[NotebookNode]:
        """Return the earlier releases of a notebook that were kept. The caller must not change them.

        Copies that don't match their digest are skipped.
        """
        if (lesson, name) not in self._earlier:
            current = Path(self.folder(lesson), f"{name}.ipynb").read_bytes()
            self._earlier[lesson, name] = [
                nbformat.reads(content.decode(), as_version=4)
                for path in sorted(self._kept(lesson).glob(f"*/{name}.ipynb"))
                if (content := path.read_bytes()) != current and _digest(content) == path.parent.name
            ]
        return self._earlier[lesson, name]

    def keep(self, lesson: str) -> None:
        """Keep copies of the notebooks in a lesson's current release, if it has any.

        Raises OSError if that fails.
        """
        for path in sorted(Path(self.folder(lesson)).glob("*.ipynb")):
            content = path.read_bytes()
            kept = self._kept(lesson) / _digest(content) / path.name
            if not kept.exists():
                kept.parent.mkdir(parents=True, exist_ok=True)
                if self._course.groupshared:
                    for folder in (kept.parent, kept.parents[1], kept.parents[2]):
                        if folder.stat().st_uid == os.geteuid():
                            folder.chmod(stat.S_IMODE(folder.stat().st_mode) | 0o2070)
                with atomic_write(kept) as file:
                    file.write(content)

    def insert_hidden_tests(
        self, lesson: str, name: str, notebook: NotebookNode, graded_only: bool = False
    ) -> None:
        """Replace a notebook's locked cells and all points with those in the gradebook, as nbgrader does.

        In the gradebook, the notebook is called `name` and belongs to `lesson`. It is modified in place.
        Cells that the gradebook doesn't know stay as they are. With `graded_only`, so do locked cells that
        earn no points.
        """
        known = self.gradebook_cells(lesson, name)
        for cell in notebook.cells:
            metadata = cell.metadata.get("nbgrader", {})
            grade_id = metadata.get("grade_id")
            if is_locked(cell) and grade_id in known.locked and (is_grade(cell) or not graded_only):
                cell.source = known.locked[grade_id]
            if is_grade(cell) and metadata["points"] != known.points.get(grade_id, metadata["points"]):
                metadata["points"] = known.points[grade_id]

    def _kept(self, lesson: str) -> Path:
        return grading_folder(self._course) / _KEPT / lesson

    def gradebook_cells(self, lesson: str, name: str) -> GradebookCells:
        """Return the gradebook's information about a notebook, which is empty before its release.

        Raises CourseError if the gradebook can't be opened.
        """
        if (lesson, name) not in self._graded:
            with open_gradebook(self._course) as gradebook:
                try:
                    notebook = gradebook.find_notebook(name, lesson)
                except MissingEntry:
                    return GradebookCells({}, {})
                self._graded[lesson, name] = GradebookCells(
                    {cell.name: cell.source for cell in notebook.source_cells if cell.locked},
                    {cell.name: cell.max_score for cell in notebook.grade_cells},
                )
        return self._graded[lesson, name]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
