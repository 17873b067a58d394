"""A small class of made-up students, for the demo and the tests: what each of them hands in."""

import copy
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.utils import is_grade, is_solution

from autograder.release.example_files import example_files
from course_lib.atomic_files import atomic_write_text
from course_lib.checks.engine import exercise as checks
from course_lib.checks.engine.misconceptions import Misconception
from course_lib.checks.exercises.registry import catalogue
from course_lib.curriculum import Curriculum, Exercise, Lesson
from course_lib.curriculum.course_file import LESSONS, SOURCES

_MARK_SCHEME = re.compile(r"\n*^### BEGIN MARK SCHEME.*?^### END MARK SCHEME\n?", re.MULTILINE | re.DOTALL)
_MARKER = re.compile(r"^ *### (BEGIN|END) SOLUTION.*\n?", re.MULTILINE)


@dataclass(frozen=True)
class Submission:
    """What one student hands in."""

    student: str
    did: str
    """In a few words, for a person who looks at the scores."""
    notebook: NotebookNode
    files: Mapping[str, bytes] = field(default_factory=dict)
    """What lies beside it, by name."""


@dataclass(frozen=True)
class Slip:
    """A mistake that costs some of an exercise's points, not all."""

    exercise: Exercise
    misconception: Misconception
    cost: float

    @property
    def code(self) -> str:
        """The exercise, written with the mistake."""
        entry = catalogue()[self.exercise.name]
        assert isinstance(entry, checks.Exercise)
        return entry.source_with(self.misconception)


def example_lesson(curriculum: Curriculum) -> Lesson:
    """Give the lesson that the class does: the first with several exercises, if there is one."""
    return next((lesson for lesson in curriculum.lessons if len(lesson.exercises) > 1), curriculum.lessons[0])


def example_class(course: Path, lesson: Lesson) -> Iterator[Submission]:
    """Give what five students hand in for a lesson that is built and released."""
    released = _read(course / LESSONS, lesson)
    answers = {
        cell.id: _as_written(cell) for cell in _read(course / SOURCES, lesson).cells if is_solution(cell)
    }
    last = lesson.exercises[-1].name
    slip = last_slip(lesson)
    files = example_files(lesson)

    yield Submission("amara", "everything right", _with(released, answers), files)
    yield Submission(
        "bruno",
        f"one slip: {slip.misconception.statement}",
        _with(released, answers | {slip.exercise.name: slip.code}),
        files,
    )
    yield Submission("chiyo", "handed it in as it was", released)
    yield Submission(
        "daria",
        f"right, but {last} is in a cell that fails on its first line",
        _with(released, answers | {last: f"import a_package_of_my_own\n\n{answers[last]}"}),
        files,
    )
    yield Submission(
        "emeka",
        "wrote nothing, tagged the checks to be skipped, and put another `check` in place of ours",
        _with_skipped_checks(_with(released, {last: "def check(*_, **__): return None"})),
    )


def last_slip(lesson: Lesson) -> Slip:
    """Find the first slip of the last exercise that has any: least in the lesson builds on that one."""
    for exercise in reversed(lesson.exercises):
        entry = catalogue()[exercise.name]
        for misconception in entry.misconceptions if isinstance(entry, checks.Exercise) else ():
            if misconception.name in exercise.deductions:
                return Slip(exercise, misconception, exercise.deductions[misconception.name])
    raise ValueError(
        f"{lesson.name}: course.toml has no deductions for this lesson, so it cannot show partial credit"
    )


def hand_in(course: Path, lesson: Lesson, only: Container[str] | None = None) -> list[Submission]:
    """Write the class's notebooks, or `only` some students', to where nbgrader collects them; give them."""
    submissions = [
        submission
        for submission in example_class(course, lesson)
        if only is None or submission.student in only
    ]
    for submission in submissions:
        folder = course / "autograder" / "submitted" / submission.student / lesson.name
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write_text(folder / f"{lesson.name}.ipynb", nbformat.writes(submission.notebook) + "\n")
        for name, content in submission.files.items():
            (folder / name).write_bytes(content)
    return submissions


def _with(released: NotebookNode, answers: dict[str, str]) -> NotebookNode:
    notebook = copy.deepcopy(released)
    for cell in notebook.cells:
        cell.source = answers.get(cell.id, cell.source)
    return notebook


def _with_skipped_checks(released: NotebookNode) -> NotebookNode:
    notebook = copy.deepcopy(released)
    for cell in notebook.cells:
        if is_grade(cell) and not is_solution(cell):
            cell.metadata["tags"] = ["skip-execution"]
    return notebook


def _as_written(cell: NotebookNode) -> str:
    """Take the instructor's markers and mark scheme out of a solution."""
    return _MARKER.sub("", _MARK_SCHEME.sub("", cell.source))


def _read(folder: Path, lesson: Lesson) -> NotebookNode:
    return nbformat.read(folder / lesson.name / f"{lesson.name}.ipynb", as_version=4)
