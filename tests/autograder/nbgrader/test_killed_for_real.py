"""`nbgrader autograde` with workers and sandboxes produces the same result if it is killed repeatedly.

Set `COURSE_KILLS`, for example to 20, to kill it more often.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograder.sandbox.confinement import probe
from tests.autograder.nbgrader.classroom import RIGHT, UNSCALED, Classroom, solved
from tests.autograder.small_course import LESSON, cell_of

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="submissions are graded on Linux"),
    pytest.mark.sandbox,
    pytest.mark.nightly,
]

KILLS = int(os.environ.get("COURSE_KILLS", "2"))
STUDENTS = 4


@pytest.fixture
def classrooms(released_course: Path, tmp_path: Path) -> tuple[Classroom, Classroom]:
    """Two copies of a class whose answers are correct, unscaled or blank, or kill the kernel."""
    if not probe().sufficient:
        pytest.skip("nothing here can confine code")
    classroom = Classroom(shutil.copytree(released_course, tmp_path / "calm"))
    for number in range(STUDENTS):
        notebook = classroom.released if number % 4 == 2 else solved(classroom.released)
        answer = cell_of(notebook, "attention_scores")
        if number % 4 != 2:
            answer.source = RIGHT + f"  # student {number}"
        if number % 4 == 1:
            answer.source = UNSCALED
        if number % 4 == 3:
            cell_of(notebook, "predict_spread").source = "predict_spread = 32.0\nimport os\nos._exit(1)"
        classroom.hand_in(f"student-{number:02d}", notebook)
    shutil.copytree(classroom.course, tmp_path / "killed")
    return classroom, Classroom(tmp_path / "killed")


def autograde(classroom: Classroom) -> subprocess.Popen[str]:
    program = Path(sys.executable).with_name("nbgrader")
    environment = {key: value for key, value in os.environ.items() if key != "COURSE_GRADEBOOK"}
    return subprocess.Popen(
        [program, "autograde", LESSON],
        cwd=classroom.course / "autograder",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_killed_for_real_it_ends_the_same(classrooms: tuple[Classroom, Classroom]) -> None:
    calm, killed = classrooms
    start = time.monotonic()
    run = autograde(calm)
    said, _ = run.communicate()
    takes = time.monotonic() - start
    assert run.returncode == 0, said
    expected = calm.state()
    assert calm.scores("student-00") == {
        "check_predict_spread": 1,
        "check_attention_scores": 4,
        "explain_root": None,
    }
    assert calm.scores("student-01")["check_attention_scores"] == 1.5
    assert calm.scores("student-02")["check_attention_scores"] == 0
    assert calm.scores("student-03") == {
        "check_predict_spread": 0,
        "check_attention_scores": 4,
        "explain_root": None,
    }
    chance, kills, pristine = random.Random(11), 0, calm.course.parent / "pristine"
    shutil.copytree(killed.course, pristine)
    while kills < KILLS:
        run = autograde(killed)
        try:
            run.communicate(timeout=chance.uniform(0.3, 1.0) * takes)
        except subprocess.TimeoutExpired:
            run.kill()
            run.communicate()
            kills += 1
            continue
        # The run finished before it was killed, so start again from the beginning.
        assert killed.state() == expected
        shutil.rmtree(killed.course)
        shutil.copytree(pristine, killed.course)
    run = autograde(killed)
    said, _ = run.communicate()
    assert run.returncode == 0, said
    assert killed.state() == expected
