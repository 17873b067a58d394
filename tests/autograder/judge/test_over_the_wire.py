"""Each lesson, judged from outside: its solutions run in another process that has only the lesson's view."""

import ast
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest

from autograder.judge.lesson_view import lesson_view
from autograder.release.build import COURSE
from course_lib.checks.engine.diagnosis import examine
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.exercises.registry import catalogue
from course_lib.checks.remote.client import student_objects
from course_lib.checks.remote.serialization import pack
from course_lib.checks.remote.transport import Channel
from course_lib.curriculum import Lesson
from course_lib.curriculum.course_file import LESSONS, load_curriculum

pytestmark = [pytest.mark.usefixtures("shapes_unchecked"), pytest.mark.sandbox]

CURRICULUM = load_curriculum(COURSE)
SEED = "graded 1706"


def exercises(lesson: Lesson) -> list[ExerciseCheck]:
    entries = [catalogue()[entry.name] for entry in lesson.exercises]
    return [entry for entry in entries if isinstance(entry, ExerciseCheck)]


def released_cells(lesson: Lesson) -> dict[str, str]:
    path = COURSE / LESSONS / lesson.name / f"{lesson.name}.ipynb"
    return {cell.id: cell.source for cell in nbformat.read(path, as_version=4).cells}


def without_charts(setup: str) -> str:
    """Remove the charts, whose import takes longer than everything else."""
    tree = ast.parse(setup)
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("course_lib.charts"))
        and not (isinstance(node, ast.Expr) and "show_offline" in ast.unparse(node))
    ]
    return ast.unparse(tree)


@contextmanager
def kernel(lesson: Lesson, folder: Path) -> Iterator[Channel]:
    """Serve this lesson's solutions from another process, under their names and as "NAME_watched".

    It also serves the stubs ("NAME_stub") and the solutions with one mistake each ("NAME_mistaken").
    """
    for path, content in lesson_view(CURRICULUM, lesson).items():
        (folder / "view" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "view" / path).write_bytes(content)
    cells = released_cells(lesson)
    others = {f"{one.name}_stub": (one.name, cells[one.name]) for one in exercises(lesson)}
    for one in exercises(lesson):
        others[f"{one.name}_watched"] = one.name, one.source
        others[f"{one.name}_mistaken"] = one.name, one.source_with(one.misconceptions[0])
    asked = {
        "setup": without_charts(cells["setup"]),
        "solutions": [one.source for one in exercises(lesson)],
        "others": others,
    }
    (folder / "cells.json").write_text(json.dumps(asked), encoding="utf-8")
    here, there = socket.socketpair()
    program = Path(__file__).with_name("served_cells.py")
    files = str(program), str(folder / "view"), str(folder / "cells.json")
    arguments = [sys.executable, "-I", *files, str(there.fileno())]
    # If a test fails, the socket is closed first, so the program ends by itself.
    with subprocess.Popen(arguments, cwd=folder, pass_fds=[there.fileno()]) as process, here:
        there.close()
        channel = Channel(here)
        yield channel
        channel.send(pack({"do": "done"}))
        assert process.wait(timeout=60) == 0


#: The first lesson has a forbidden call, and the second builds its models in this process. The others repeat
#: what `test_every_lesson.py` grades.
EACH_DAY = "01-attention", "11-decoding"


@pytest.mark.parametrize(
    "lesson",
    [
        pytest.param(lesson, id=lesson.name, marks=[] if lesson.name in EACH_DAY else pytest.mark.nightly)
        for lesson in CURRICULUM.lessons
    ],
)
def test_a_lesson_is_judged_over_the_wire_as_it_is_at_home(lesson: Lesson, tmp_path: Path) -> None:
    with kernel(lesson, tmp_path) as channel:
        forbidden = {"attention_scores_watched": ["torch.Tensor.transpose"]}
        names = student_objects(channel, forbidden, timeout=60.0)
        assert {one.name for one in exercises(lesson)} <= names.keys()
        for exercise in exercises(lesson):
            right = examine(exercise, names[exercise.name], SEED)
            assert right.passed, (exercise.name, right.difference, right.unwritten)
            wrong = examine(exercise, names[f"{exercise.name}_mistaken"], SEED)
            assert wrong.explanation.named == (exercise.misconceptions[0],), (exercise.name, wrong.difference)
            blank = examine(exercise, names[f"{exercise.name}_stub"], SEED)
            assert exercise.name in blank.unwritten
        if lesson.name == "01-attention":
            verdict = examine(exercises(lesson)[0], names["attention_scores_watched"], SEED)
            assert verdict.forbidden == ("torch.Tensor.transpose",)
        assert not channel.dead
