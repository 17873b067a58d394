"""Each lesson, run and judged as in `nbgrader autograde`: solutions earn every point, and stubs earn none.

nbgrader's own part is the same for all lessons, and `test_nbgrader_commands` tests it with one of them.
"""

import sys
from collections.abc import Collection, Iterator

import nbformat
import pytest
from nbgrader.utils import determine_grade

from autograder.example_class import example_class
from autograder.graded_notebooks.verdicts import is_check
from autograder.judge.inherited_mistakes import used_by_reference
from autograder.nbgrader.sandboxed_execute import SandboxedExecute, insert_outputs
from autograder.release.build import COURSE
from autograder.results.local_executor import SharedExecutor
from autograder.results.results import Results
from autograder.sandbox.confinement import probe
from course_lib.curriculum import Lesson
from course_lib.curriculum.course_file import LESSONS, SOURCES, load_curriculum

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="submissions are graded on Linux"),
    pytest.mark.sandbox,
]

CURRICULUM = load_curriculum(COURSE)
RIGHT, AS_IT_WAS = "amara", "chiyo"


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[SandboxedExecute, Results]]:
    if not probe().sufficient:
        pytest.skip("nothing here can confine code")
    execute = SandboxedExecute(course=str(COURSE), workers=1)
    with execute.running(SharedExecutor()) as results:
        yield execute, results


def points(
    running: tuple[SandboxedExecute, Results],
    lesson: Lesson,
    student: str,
    released: Collection[str] = (),
) -> dict[str, float]:
    """Return the points of a student's checks, including hidden tests.

    The cells called `released` are replaced by those of the released lesson.
    """
    execute, results = running
    [submission] = (entry for entry in example_class(COURSE, lesson) if entry.student == student)
    notebook = submission.notebook
    sources = {name: source for name, source in cells(LESSONS, lesson).items() if name in released}
    checks = {cell.id for cell in notebook.cells if is_check(cell)}
    sources |= {name: source for name, source in cells(SOURCES, lesson).items() if name in checks}
    for cell in notebook.cells:
        cell.source = sources.get(cell.id, cell.source)
    job = execute.job(lesson.name, notebook, submission.files)
    insert_outputs(notebook, results.get(execute.source(lesson.name), job))
    return {cell.id: determine_grade(cell)[0] for cell in notebook.cells if cell.id in checks}


def cells(folder: str, lesson: Lesson) -> dict[str, str]:
    notebook = nbformat.read(COURSE / folder / lesson.name / f"{lesson.name}.ipynb", as_version=4)
    return {cell.id: cell.source for cell in notebook.cells}


def all_points(lesson: Lesson) -> dict[str, float]:
    return {name: float(points) for name, points in lesson.points.items() if name.startswith("check_")}


@pytest.mark.parametrize("lesson", CURRICULUM.lessons, ids=lambda lesson: lesson.name)
def test_solutions_earn_all_and_stubs_nothing(
    running: tuple[SandboxedExecute, Results], lesson: Lesson
) -> None:
    assert points(running, lesson, RIGHT) == all_points(lesson)
    assert points(running, lesson, AS_IT_WAS) == dict.fromkeys(all_points(lesson), 0.0)


def used_exercises(lesson: Lesson) -> set[str]:
    """Return the exercises of a lesson that its other exercises use."""
    names = {entry.name for entry in lesson.exercises}
    return {used for name in names for used in used_by_reference(name) & (names - {name})}


@pytest.mark.parametrize(
    "lesson", [*filter(used_exercises, CURRICULUM.lessons)], ids=lambda lesson: lesson.name
)
def test_exercises_that_use_unwritten_ones_keep_their_points(
    running: tuple[SandboxedExecute, Results], lesson: Lesson
) -> None:
    unwritten = used_exercises(lesson)
    expected = all_points(lesson) | {f"check_{name}": 0.0 for name in unwritten}
    assert points(running, lesson, RIGHT, unwritten) == expected
