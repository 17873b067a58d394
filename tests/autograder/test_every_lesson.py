"""Each lesson, run and judged as in `nbgrader autograde`: solutions earn every point, and stubs earn none.

nbgrader's own part is the same for all lessons, and `test_nbgrader_commands` tests it with one of them.
"""

import sys
from collections.abc import Iterator

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.utils import determine_grade

from autograder.example_class import example_class
from autograder.graded_notebooks.verdicts import is_check
from autograder.nbgrader.sandboxed_execute import SandboxedExecute, insert_outputs
from autograder.release.build import COURSE
from autograder.results.local_executor import SharedExecutor
from autograder.results.results import Results
from autograder.sandbox.confinement import probe
from course_lib.curriculum import Lesson
from course_lib.curriculum.course_file import SOURCES, load_curriculum

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


@pytest.fixture
def scores(running: tuple[SandboxedExecute, Results], lesson: Lesson) -> dict[str, dict[str, float]]:
    """The points of each check, including hidden tests, by student."""
    execute, results = running
    master = nbformat.read(COURSE / SOURCES / lesson.name / f"{lesson.name}.ipynb", as_version=4)
    locked = {cell.id: cell.source for cell in master.cells if is_check(cell)}
    found: dict[str, dict[str, float]] = {}
    for submission in example_class(COURSE, lesson):
        if submission.student not in (RIGHT, AS_IT_WAS):
            continue
        notebook = submission.notebook
        for cell in notebook.cells:
            cell.source = locked.get(cell.id, cell.source)
        job = execute.job(lesson.name, notebook, submission.files)
        insert_outputs(notebook, results.get(execute.source(lesson.name), job))
        found[submission.student] = points(notebook)
    return found


def points(notebook: NotebookNode) -> dict[str, float]:
    return {cell.id: determine_grade(cell)[0] for cell in notebook.cells if is_check(cell)}


@pytest.mark.parametrize("lesson", CURRICULUM.lessons, ids=lambda lesson: lesson.name)
def test_solutions_earn_all_and_stubs_nothing(lesson: Lesson, scores: dict[str, dict[str, float]]) -> None:
    checks = {name: float(points) for name, points in lesson.points.items() if name.startswith("check_")}
    assert scores[RIGHT] == checks
    assert scores[AS_IT_WAS] == dict.fromkeys(checks, 0.0)
