"""A class with grades: a real gradebook and graded notebooks, created without running a grader."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.reports.class_report import ClassReport
from tests.made_once import made_once

DUE = datetime(2026, 10, 9, 18)
POINTS = {"check_scores": 4.0, "check_guess": 1.0, "explain": 2.0}
CODE = "def scores(query, key):\n    return query @ key.mT  # <script>alert(1)</script>"


class GradedClass:
    """A gradebook and graded notebooks like those that grading creates, built without running a grader."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "autograder").mkdir(parents=True, exist_ok=True)
        self.gradebook = Gradebook(f"sqlite:///{root}/gradebook.db", "a-course")
        steps = {f"{step}_directory": f"autograder/{step}" for step in ("submitted", "autograded")}
        self.course = CourseDirectory(root=str(root), course_id="a-course", config=Config(), **steps)

    def release(self, lesson: str, due: datetime | None = DUE) -> None:
        self.gradebook.add_assignment(lesson, duedate=due)
        self.gradebook.add_notebook(lesson, lesson)
        for name, points in POINTS.items():
            kind = "code" if name.startswith("check_") else "markdown"
            self.gradebook.add_grade_cell(name, lesson, lesson, max_score=points, cell_type=kind)

    def hand_in(
        self,
        student: str,
        lesson: str,
        points: Mapping[str, float | None],
        verdicts: Mapping[str, Mapping[str, object]] | None = None,
        days_late: float = 0,
        **grading: object,
    ) -> Path:
        """Add a graded submission. Without verdicts, it is like one graded by plain nbgrader."""
        self.gradebook.update_or_create_student(student)
        self.gradebook.add_submission(lesson, student, timestamp=DUE + timedelta(days=days_late))
        for grade in self.gradebook.find_submission_notebook(lesson, lesson, student).grades:
            grade.auto_score = points.get(grade.name)
            grade.needs_manual_grade = grade.auto_score is None
        self.gradebook.db.commit()
        notebook = graded_notebook()
        if verdicts is not None:
            findings = {f"check_{name}": {"name": name, **verdict} for name, verdict in verdicts.items()}
            record = {"version": 1, "complete": True, "findings": findings, **grading}
            notebook.metadata.course_grading = record
        path = self.root / "autograder" / "autograded" / student / lesson / f"{lesson}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)
        return path

    def report(self, **chosen: object) -> tuple[str, dict[str, pd.DataFrame]]:
        """Write the class report. Return the page, and the tables as read from their files."""
        plugin = ClassReport(parent=None, config=Config({"CourseDirectory": self._config()}), **chosen)
        plugin.to = str(self.root / "out" / "report.html")
        plugin.export(self.gradebook)
        folder = self.root / "out"
        tables = {path.stem: pd.read_csv(path) for path in (folder / "report").glob("*.csv")}
        return (folder / "report.html").read_text(encoding="utf-8"), tables

    def _config(self) -> dict[str, str]:
        names = ("root", "course_id", "submitted_directory", "autograded_directory", "student_id_exclude")
        return {name: getattr(self.course, name) for name in names}


def graded_notebook() -> NotebookNode:
    """Build a graded notebook with two pieces of code, each above its check, and an explanation."""
    cells = []
    for name in ("scores", "guess"):
        code = CODE if name == "scores" else "guess = 8"
        cells.append(new_code_cell(code, metadata=about(name, solution=True)))
        said = new_output("display_data", data={"text/plain": "a verdict"})
        check = about(f"check_{name}", grade=True, locked=True)
        cells.append(new_code_cell(f"check('{name}')", metadata=check, outputs=[said]))
    cells.append(new_markdown_cell("They add up.", metadata=about("explain", grade=True, solution=True)))
    return new_notebook(cells=cells)


def about(name: str, **kind: bool) -> dict[str, object]:
    plain = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    return {"nbgrader": {**plain, "grade_id": name, **kind}}


RIGHT = {"verdict": "right"}
NOT_SCALED = {
    "verdict": "wrong",
    "misconceptions": ["not_scaled"],
    "statements": ["the scores are not divided"],
}


def empty_course(tmp_path_factory: pytest.TempPathFactory) -> GradedClass:
    """Open a copy of a course with an empty gradebook, because creating a new one takes longer."""

    def make() -> Path:
        with pytest.MonkeyPatch.context() as patch:
            # nbgrader creates a gradebook with the program `alembic`.
            patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
            return folder_of(GradedClass(tmp_path_factory.mktemp("empty") / "course"))

    root = tmp_path_factory.mktemp("graded") / "course"
    shutil.copytree(made_once(tmp_path_factory, "empty_course", make), root)
    return GradedClass(root)


def folder_of(graded: GradedClass) -> Path:
    graded.gradebook.close()
    return graded.root


def copy_of(folder: Path, tmp_path: Path) -> Iterator[GradedClass]:
    shutil.copytree(folder, tmp_path / "course")
    graded = GradedClass(tmp_path / "course")
    yield graded
    graded.gradebook.close()
