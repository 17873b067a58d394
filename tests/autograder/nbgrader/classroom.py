"""A small course and its instructor's actions: collect submissions, grade them, and read the gradebook."""

import json
import logging
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps.baseapp import NbGrader
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config, PyFileConfigLoader

from autograder.nbgrader.autograde import CourseAutograde
from autograder.nbgrader.course_folder import CourseFolder
from autograder.nbgrader.generate_assignment import CourseGenerateAssignment
from tests.autograder.small_course import LESSON, cell_of

SOLVED = {
    "predict_spread": "predict_spread = 32.0",
    "attention_scores": "def attention_scores(query, key):\n    return query @ key.mT / len(query.mT) ** 0.5",
    "explain_root": "The variances add up.",
}


RIGHT = "def attention_scores(query, key):\n    return query @ key.mT / query.shape[-1] ** 0.5"
UNSCALED = "def attention_scores(query, key):\n    return query @ key.mT"


def configuration(course: Path) -> Config:
    """Load a course's nbgrader_config.py."""
    return PyFileConfigLoader("nbgrader_config.py", path=str(course / "autograder")).load_config()


def release(course: Path, **options: object) -> None:
    """Release a course's lesson as `nbgrader generate_assignment` does, or raise NbGraderException."""
    folder = CourseFolder(course)
    converter = CourseGenerateAssignment(coursedir=folder.directory(LESSON), config=folder.config)
    for name, value in options.items():
        setattr(converter, name, value)
    converter.start()


def run_app(
    monkeypatch: pytest.MonkeyPatch, app: type[NbGrader], folder: Path, *arguments: str, **variables: str
) -> int:
    """Run an nbgrader command in this process, in a folder, and return its exit code.

    A gradebook named in the user's environment is ignored.
    """
    monkeypatch.delenv("COURSE_GRADEBOOK", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.path", [*sys.path])  # nbgrader inserts the folder
    app.clear_instance()
    try:
        app.launch_instance(list(arguments))
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        app.clear_instance()
    return 0


def solved(released: NotebookNode) -> NotebookNode:
    """Return a copy of a released lesson that contains correct answers."""
    notebook = nbformat.from_dict(json.loads(json.dumps(released)))
    for name, source in SOLVED.items():
        cell_of(notebook, name).source = source
    return notebook


@dataclass
class Classroom:
    """A course, and the commands that an instructor runs in it."""

    course: Path

    @property
    def released(self) -> NotebookNode:
        """The lesson as released to students."""
        return nbformat.read(self.course / "lessons" / LESSON / f"{LESSON}.ipynb", as_version=4)

    def folder(self, student: str, step: str = "submitted") -> Path:
        """Return the folder of a student's submission, or of the result of another step."""
        return self.course / "autograder" / step / student / LESSON

    def hand_in(
        self, student: str, content: bytes | NotebookNode, name: str = f"{LESSON}.ipynb", at: str = ""
    ) -> Path:
        """Write a submitted file, with a timestamp if one is given, and return the submission folder."""
        path = self.folder(student) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = nbformat.writes(content).encode() if isinstance(content, NotebookNode) else content
        path.write_bytes(text)
        if at:
            (self.folder(student) / "timestamp.txt").write_text(at)
        return self.folder(student)

    def autograde(self, **options: Any) -> list[str]:
        """Grade the submissions, and return the warnings and errors that nbgrader logged."""
        lines: list[str] = []
        log = logging.Logger("grading")
        handler = logging.Handler()
        handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
        handler.setLevel(logging.WARNING)
        log.addHandler(handler)
        config = configuration(self.course)
        directory = CourseDirectory(config=config, assignment_id=LESSON)
        converter = CourseAutograde(coursedir=directory, config=config)
        converter.log = log
        for name, value in options.items():
            setattr(converter if converter.has_trait(name) else directory, name, value)
        try:
            converter.start()
        except NbGraderException as error:
            lines.append(f"nbgrader ends with an error: {error}")
        return lines

    def autograded(self, student: str) -> NotebookNode:
        """Read the graded notebook."""
        return nbformat.read(self.folder(student, "autograded") / f"{LESSON}.ipynb", as_version=4)

    def told(self, student: str) -> list[str]:
        """Return the notes on a submission, including those on tampering."""
        grading = self.autograded(student).metadata.course_grading
        return [*grading.repairs, *grading.tampering]

    @property
    def not_graded(self) -> dict[str, str]:
        """Return the reasons why submissions were not graded, by student."""
        path = self.course / "autograder/not_graded.json"
        return json.loads(path.read_text()).get(LESSON, {}) if path.is_file() else {}

    def scores(self, student: str) -> dict[str, float | None] | None:
        """Return a student's automatic scores by grade cell, or None if the gradebook has no submission."""
        with Gradebook(f"sqlite:///{self.course}/autograder/gradebook.db") as gradebook:
            try:
                notebook = gradebook.find_submission_notebook(LESSON, LESSON, student)
            except MissingEntry:
                return None
            return {grade.name: grade.auto_score for grade in notebook.grades}

    def state(self) -> dict[str, Any]:
        """Return everything that grading writes: the files, and the gradebook's contents except its keys."""
        with Gradebook(f"sqlite:///{self.course}/autograder/gradebook.db") as gradebook:
            gradings = {
                submission.student.id: {
                    "timestamp": str(submission.timestamp),
                    "penalty": [notebook.late_submission_penalty for notebook in submission.notebooks],
                    "grades": sorted(
                        (grade.name, str(grade.auto_score), str(grade.manual_score), grade.needs_manual_grade)
                        for notebook in submission.notebooks
                        for grade in notebook.grades
                    ),
                    "comments": sorted(
                        (comment.name, str(comment.auto_comment), str(comment.manual_comment))
                        for notebook in submission.notebooks
                        for comment in notebook.comments
                    ),
                }
                for submission in gradebook.assignment_submissions(LESSON)
            }
            students = sorted(student.id for student in gradebook.students)
        autograded = self.course / "autograder/autograded"
        files = {
            str(path.relative_to(autograded)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
            for path in sorted(autograded.rglob("*"))
            if path.is_file()
        }
        return {"students": students, "gradings": gradings, "files": files, "not graded": self.not_graded}
