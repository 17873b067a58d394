"""Runs killed at any point: when restarted, they end in the same state as an uninterrupted run."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook

from autograder.release.build import COURSE
from tests.autograder.nbgrader.classroom import Classroom, solved
from tests.autograder.small_course import LESSON, cell_of

pytestmark = pytest.mark.sandbox

NAME = f"{LESSON}.ipynb"


def hand_in_a_class(classroom: Classroom) -> None:
    """Submit a resubmission, late work, an unreadable file, and a notebook with a different name."""
    right = solved(classroom.released)
    other = solved(classroom.released)
    cell_of(other, "attention_scores").source += "  # once more"
    with Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db") as gradebook:
        gradebook.update_or_create_assignment(LESSON, duedate="2025-01-31 12:00:00")
    classroom.hand_in("anna", right, at="2025-01-30 12:00:00 UTC")
    classroom.hand_in("dora", right, at="2025-01-30 12:00:00 UTC")
    classroom.autograde()
    with Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db") as gradebook:
        gradebook.find_grade("explain_root", LESSON, LESSON, "anna").manual_score = 2
        gradebook.db.commit()
    classroom.hand_in("anna", other, at="2025-02-01 12:00:00 UTC")
    classroom.hand_in("anna", b"1, 2", "data/mine.csv")
    classroom.hand_in("bela", classroom.released)
    classroom.hand_in("carl", b"<html>", at="2025-01-30 12:00:00 UTC")
    classroom.hand_in("emil", other, "copy.ipynb", at="2025-01-31 18:00:00 UTC")


class Runs:
    """Grading runs in a separate process, which kills them at given points."""

    def __init__(self, course: Path) -> None:
        program = [sys.executable, "-m", "tests.autograder.nbgrader.killed_runs", course]
        self.process = subprocess.Popen(
            ["env", f"PYTHONPATH={COURSE}", *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def trial(self, *kills: int) -> dict[str, Any]:
        """Restore the initial class, kill one run at each of these points, and then run to the end."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(kills) + "\n")
        self.process.stdin.flush()
        result: dict[str, Any] = json.loads(self.process.stdout.readline())
        return result


@pytest.mark.parametrize("trials", [5, pytest.param(44, marks=pytest.mark.nightly)])
def test_killed_anywhere_it_ends_the_same(classroom: Classroom, trials: int) -> None:
    hand_in_a_class(classroom)
    runs = Runs(classroom.course)
    expected = runs.trial()
    state = expected["state"]
    assert set(state["gradings"]) == {"anna", "bela", "dora", "emil"}
    assert state["gradings"]["anna"]["penalty"] == [1.0]
    assert state["gradings"]["emil"]["penalty"] == [0.25]
    assert list(state["not graded"]) == ["carl"]
    assert f"anna/{LESSON}/data/mine.csv" in state["files"]
    points, chance = expected["passed"], random.Random(4)
    for number in range(trials):
        # Kill at a random point in each part of the run. In every third trial, kill the second run too.
        first = points * number // trials + chance.randrange(points // trials) + 1
        kills = [first, chance.randrange(1, 60)] if number % 3 == 0 else [first]
        assert runs.trial(*kills)["state"] == state, f"killed at {kills} of {points}"
    assert runs.process.stdin
    runs.process.stdin.close()
    assert runs.process.wait() == 0


@pytest.fixture
def graded(classroom: Classroom) -> Classroom:
    """A classroom in which `anna` has been graded."""
    classroom.hand_in("anna", solved(classroom.released), at="2025-01-30 12:00:00 UTC")
    classroom.hand_in("anna", b"1, 2", "mine.csv")
    classroom.autograde()
    return classroom


def rewrite(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text, encoding="utf-8")
    path.chmod(0o444)


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: rewrite(folder / NAME, (folder / NAME).read_text()[:-30]),
        lambda folder: rewrite(
            folder / NAME, (folder / NAME).read_text().replace('"complete": true', '"x": 1')
        ),
        lambda folder: rewrite(folder / NAME, ""),
        lambda folder: rewrite(folder / NAME, "[" * 100_000),
        lambda folder: (folder / NAME).unlink(),
    ],
)
def test_an_incomplete_notebook_is_graded_again(graded: Classroom, harm: Callable[[Path], object]) -> None:
    before = graded.state()
    harm(graded.folder("anna", "autograded"))
    assert graded.autograde() == []
    assert graded.state() == before


def test_only_what_a_run_is_about_is_graded_again(graded: Classroom) -> None:
    (graded.folder("anna", "autograded") / NAME).unlink()
    graded.hand_in("bela", solved(graded.released))
    graded.autograde(student_id="bela")
    graded.autograde(student_id_exclude="anna")
    assert not (graded.folder("anna", "autograded") / NAME).exists()


def test_one_notebook_is_graded_again_among_its_files(graded: Classroom) -> None:
    before = graded.state()
    rewrite(graded.folder("anna", "autograded") / NAME, "{")
    graded.autograde(notebook_id="01-*")
    assert graded.state() == before


def test_what_a_run_killed_after_its_commit_left_is_deleted(graded: Classroom) -> None:
    before = graded.state()
    folder = graded.folder("anna", "autograded")
    shutil.copytree(folder, folder.with_name(f".{LESSON}.discarded") / "old")
    assert graded.state() != before
    assert graded.autograde() == []
    assert graded.state() == before


@pytest.mark.parametrize("link", ["lesson", "student", "notebook"])
def test_no_link_leads_out_of_the_autograded_folder(graded: Classroom, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    (outside / LESSON).mkdir(parents=True)
    (outside / LESSON / NAME).write_text("{}")
    folder = graded.folder("anna", "autograded")
    if link == "notebook":
        (folder / NAME).unlink()
        (folder / NAME).symlink_to(outside / LESSON / NAME)
    else:
        replaced = folder if link == "lesson" else folder.parent
        shutil.rmtree(replaced)
        replaced.symlink_to(outside / LESSON if link == "lesson" else outside)
    said = graded.autograde()
    assert bool(said) == (link != "notebook")
    assert (outside / LESSON / NAME).read_text() == "{}"
    assert [path.name for path in outside.rglob("*")] == [LESSON, NAME]
