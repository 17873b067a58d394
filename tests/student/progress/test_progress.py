"""A student's progress, read from saved, damaged or missing notebooks."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib.student.progress import ProgressError, State, finished_exercises, read_lessons
from course_lib.student.progress.start_page import (
    PAGE,
    after_saving,
    describe,
    first_page,
    start_page,
    write_page,
)

LESSONS = Path(__file__).parents[3] / "lessons"
STUB = 'def scores():\n    raise NotImplementedError("scores is yours to write: lesson 01, exercise 1 of 1")'


def marks(name: str, **more: Any) -> dict[str, Any]:
    return {"nbgrader": {"grade_id": name, "schema_version": 3, "locked": False, "task": False, **more}}


def save(
    folder: Path, *, said: str | None = None, code: str = STUB, code_run: int = 1, check_run: int = 2
) -> None:
    """Write a lesson with a prediction, an explanation and an exercise whose check printed `said`."""
    prediction = "predict = None  # your number here"
    outputs = [] if said is None else [new_output("stream", name="stdout", text=said)]
    check = {"grade": True, "solution": False}
    cells = [
        new_code_cell(prediction, metadata=marks("predict", grade=False, solution=True)),
        new_code_cell("check", metadata=marks("check_predict", points=1, **check)),
        new_code_cell(code, metadata=marks("scores", grade=False, solution=True), execution_count=code_run),
        new_code_cell(
            "check",
            metadata=marks("check_scores", points=4, **check),
            outputs=outputs,
            execution_count=check_run,
        ),
        new_markdown_cell("why", metadata=marks("explain", points=3, grade=True, solution=True)),
    ]
    about = {"lesson": "01-attention", "title": "Attention", "minutes": 150}
    path = folder / "01-attention" / "01-attention.ipynb"
    path.parent.mkdir(exist_ok=True)
    nbformat.write(new_notebook(cells=cells, metadata={"course": about}), path)


def test_not_started(tmp_path: Path) -> None:
    save(tmp_path)
    (lesson,) = read_lessons(tmp_path)
    assert (lesson.title, lesson.minutes, lesson.points) == ("Attention", 150, 8)
    assert list(lesson.checks.values()) == [State.NOT_RUN, State.NOT_RUN]
    assert describe(lesson) == "not started"


@pytest.mark.parametrize(
    ("saved", "says"),
    [
        ({"code": "def scores():\n    return 1"}, "0 of 2 checks pass"),
        ({"said": "✗ scores: not yet"}, "0 of 2 checks pass"),
        ({"said": "✓ scores: correct: all 9 tests passed.\n"}, "1 of 2 checks pass"),
        (
            {"said": "✓ scores: correct.", "code_run": 7},
            "0 of 2 checks pass, run 1 again",
        ),
        ({"said": "✗ scores: wrong.\n  You earn 2 points for this."}, "0 of 2 checks pass"),
        ({"said": "✓ scores: BLEU 41.0 on captions."}, "1 of 2 checks pass"),
        ({"said": "◐ scores: BLEU 25.0 on captions."}, "0 of 2 checks pass"),
    ],
)
def test_started(tmp_path: Path, saved: dict[str, Any], says: str) -> None:
    save(tmp_path, **saved)
    (lesson,) = read_lessons(tmp_path)
    assert describe(lesson) == says


@pytest.mark.parametrize(("said", "finished"), [("✓", ["attention_scores"]), ("✗", [])])
def test_the_map_shows_what_passes(tmp_path: Path, said: str, finished: list[str]) -> None:
    save(tmp_path)
    path = tmp_path / "01-attention" / "01-attention.ipynb"
    text = path.read_text(encoding="utf-8").replace("scores", "attention_scores")
    path.write_text(text, encoding="utf-8")
    assert finished_exercises(tmp_path) == []
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[3].outputs = [new_output("stream", name="stdout", text=f"{said} attention_scores: ...")]
    nbformat.write(notebook, path)
    assert finished_exercises(tmp_path) == finished


def test_no_lessons_are_no_finished_exercises(tmp_path: Path) -> None:
    assert finished_exercises(tmp_path) == finished_exercises(tmp_path / "absent") == []


def test_released_lessons_are_not_started() -> None:
    lessons = read_lessons(LESSONS)
    assert len(lessons) == len(list(LESSONS.glob("??-*")))
    for lesson in lessons:
        assert describe(lesson) == "not started"
        assert lesson.title != lesson.name
        assert lesson.minutes > 0
        assert lesson.checks


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', '{"nbformat": 4, "cells": [7]}', "\x00"])
def test_a_damaged_notebook_is_reported_and_does_not_stop_the_others(tmp_path: Path, text: str) -> None:
    save(tmp_path)
    (tmp_path / "02-multi-head").mkdir()
    (tmp_path / "02-multi-head" / "02-multi-head.ipynb").write_text(text, encoding="utf-8")
    first, second = read_lessons(tmp_path)
    assert describe(first) == "not started"
    assert "not a valid notebook" in describe(second)
    assert "02-multi-head" in start_page([first, second])


def test_a_folder_without_lessons(tmp_path: Path) -> None:
    with pytest.raises(ProgressError, match="contains no lessons"):
        read_lessons(tmp_path)
    with pytest.raises(ProgressError, match="there is no such folder"):
        read_lessons(tmp_path / "absent")


def test_the_page_is_written_when_a_notebook_is_saved(tmp_path: Path) -> None:
    save(tmp_path, said="✓ scores: correct")
    saved = str(tmp_path / "01-attention" / "01-attention.ipynb")
    after_saving(model={"type": "file"}, contents_manager=None, os_path=saved)
    after_saving(
        model={"type": "notebook"}, contents_manager=None, os_path=str(tmp_path / "own" / "own.ipynb")
    )
    assert not (tmp_path / PAGE).exists()
    after_saving(model={"type": "notebook"}, contents_manager=None, os_path=saved)
    text = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert (
        "| [01 Attention](01-attention/01-attention.ipynb) | 150 | 8 | ▰▰▰▰▰▱▱▱▱▱ 1 of 2 checks pass |"
        in text
    )
    write_page(tmp_path)
    assert (tmp_path / PAGE).read_text(encoding="utf-8") == text


def test_the_first_page_invites_to_fetch_a_lesson_and_then_lists_what_was_fetched(tmp_path: Path) -> None:
    assert first_page(tmp_path, "a-course") == "/lab/tree/a-course/start.md"
    page = tmp_path / "a-course" / PAGE
    assert "You have no lessons yet" in page.read_text(encoding="utf-8")
    save(tmp_path / "a-course")
    first_page(tmp_path, "a-course")
    assert "01-attention/01-attention.ipynb" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    def run(*folder: Path, inside: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "course_lib.student.progress", *map(str, folder)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=inside)

    save(tmp_path, said="✓ scores: correct")
    told = run(tmp_path)
    assert told.returncode == 0
    assert "1 of 2 checks pass" in told.stdout
    for place in (tmp_path, tmp_path / "01-attention"):  # where JupyterLab opens terminals
        assert "1 of 2 checks pass" in run(inside=place).stdout
    told = run(tmp_path / "absent")
    assert (told.returncode, told.stdout) == (1, "")
    assert "there is no such folder" in told.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_reported_without_a_traceback() -> None:
    command = [sys.executable, "-m", "course_lib.student.progress", str(LESSONS)]
    with open("/dev/full", "w", encoding="utf-8") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr
