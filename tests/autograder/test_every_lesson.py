"""Each lesson through `nbgrader autograde`: the solutions earn every point, and the stubs none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograder.build import COURSE
from autograder.demo import copy_course
from autograder.example_class import hand_in
from autograder.manifest import Lesson, load_manifest

MANIFEST = load_manifest(COURSE)
RIGHT, AS_IT_WAS = "amara", "chiyo"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("every-lesson") / "course"
    copy_course(COURSE, root)
    return root


def nbgrader(course: Path, *command: str) -> None:
    # A gradebook of the person who runs the tests must not be written to.
    environment = {key: value for key, value in os.environ.items() if key != "COURSE_GRADEBOOK"}
    program = Path(sys.executable).with_name("nbgrader")
    desk = course / "autograder"
    done = subprocess.run(
        [program, *command], cwd=desk, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def scores(course: Path, lesson: Lesson, student: str) -> dict[str, float]:
    """What the gradebook holds for the checks of a student's lesson, by grade cell."""
    with Gradebook(f"sqlite:///{course}/autograder/gradebook.db") as gradebook:
        notebook = gradebook.find_submission_notebook(lesson.name, lesson.name, student)
        return {grade.name: grade.auto_score for grade in notebook.grades if grade.name.startswith("check_")}


@pytest.mark.parametrize("lesson", MANIFEST.lesson, ids=lambda lesson: lesson.name)
def test_solutions_earn_all_and_stubs_nothing(course: Path, lesson: Lesson) -> None:
    nbgrader(course, "generate_assignment", lesson.name)
    hand_in(course, lesson, only=(RIGHT, AS_IT_WAS))
    nbgrader(course, "autograde", lesson.name)
    checks = {f"check_{name}": float(entry.points) for name, entry in lesson.checked.items()}
    assert scores(course, lesson, RIGHT) == checks
    assert scores(course, lesson, AS_IT_WAS) == dict.fromkeys(checks, 0.0)
