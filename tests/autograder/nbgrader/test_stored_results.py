"""Grading in the sandbox with the result store: nothing is computed twice."""

import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook

from autograder.nbgrader.autograde import CourseAutograde
from autograder.nbgrader.stored_results import main
from autograder.results.local_executor import SharedExecutor, WorkerExecutor
from autograder.results.store import Header, ResultStore
from autograder.sandbox.confinement import probe
from tests.autograder.nbgrader.classroom import RIGHT, Classroom, solved
from tests.autograder.small_course import LESSON, cell_of

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(not probe().sufficient, reason="nothing here can confine code"),
]


class NoExecutor(WorkerExecutor):
    """An executor that fails if it is asked to run a notebook."""

    workers = 1

    def submit(self, *_: Any, **__: Any) -> Future[Any]:  # type: ignore[override]
        raise AssertionError("a notebook was run again")


class NoWorkers(SharedExecutor):
    @contextmanager
    def borrow(self, *_: Any) -> Iterator[Any]:
        yield NoExecutor()


@pytest.fixture(scope="module")
def graded(released_course: Path, tmp_path_factory: pytest.TempPathFactory) -> Classroom:
    """A class of two that was graded in sandboxes."""
    classroom = Classroom(shutil.copytree(released_course, tmp_path_factory.mktemp("stored") / "course"))
    folder = classroom.course / "autograder"
    shutil.copy(folder / "gradebook.db", folder / "new.db")
    for number, student in enumerate(("anna", "bela")):
        notebook = solved(classroom.released)
        cell_of(notebook, "attention_scores").source = f"{RIGHT}  # {number}"
        classroom.hand_in(student, notebook, at="2025-01-30 12:00:00 UTC")
    assert classroom.autograde() == []
    assert classroom.scores("anna") == {
        "check_predict_spread": 1,
        "check_attention_scores": 4,
        "explain_root": None,
    }
    return classroom


@pytest.fixture
def classroom(graded: Classroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Classroom:
    """A copy of the graded class and its result store, in which no notebook can be run."""
    shutil.copytree(graded.course, tmp_path / "course")
    usual = CourseAutograde.__init__
    monkeypatch.setattr(
        CourseAutograde,
        "__init__",
        lambda self, *arguments, **options: usual(self, *arguments, **options, workers=NoWorkers()),
    )
    return Classroom(tmp_path / "course")


#: A locked cell whose check fails, whatever the student wrote.
BROKEN = """
from course_lib.checks.exercises.registry import catalogue
def broken(query, key):
    raise ImportError("a fixture is missing")
entry = catalogue()["attention_scores"]
object.__setattr__(entry, "reference", broken)
check("attention_scores", globals(), grading={"points": 4, "seed": 5})
"""


def test_a_broken_check_keeps_the_old_grades(graded: Classroom, tmp_path: Path) -> None:
    classroom = Classroom(shutil.copytree(graded.course, tmp_path / "course"))
    with Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db") as gradebook:
        gradebook.find_source_cell("check_attention_scores", LESSON, LESSON).source = BROKEN
        gradebook.db.commit()
    classroom.hand_in("carl", solved(classroom.released))
    before, stored = classroom.state(), sorted(store_of(classroom).rglob("*"))
    said = classroom.autograde(force=True)
    assert said[-1].startswith("nbgrader ends with an error: 3 of 3 submissions could not be graded")
    for student in ("anna", "bela", "carl"):
        assert "its reference raised ImportError (a fixture is missing)" in classroom.not_graded[student]
    after = classroom.state()
    assert classroom.scores("carl") is None  # a row without scores would be exported as 0 points
    assert {student: after["gradings"][student] for student in ("anna", "bela")} == before["gradings"]
    assert after["files"] == before["files"]
    assert sorted(store_of(classroom).rglob("*")) == stored  # so the same notebook runs again later


def store_of(classroom: Classroom) -> Path:
    return classroom.course / "autograder/result_store"


def test_the_same_class_is_graded_again_without_running_anything(classroom: Classroom) -> None:
    before = classroom.state()
    assert classroom.autograde(force=True) == []
    assert classroom.state() == before
    shutil.rmtree(classroom.course / "autograder/autograded")
    shutil.copy(classroom.course / "autograder/new.db", classroom.course / "autograder/gradebook.db")
    assert classroom.autograde() == []
    assert classroom.state() == before


def test_the_same_bytes_handed_in_again_only_change_the_time(classroom: Classroom) -> None:
    before = classroom.state()
    (classroom.folder("anna") / "timestamp.txt").write_text("2025-02-01 12:00:00 UTC")
    assert classroom.autograde() == []
    after = classroom.state()
    assert after["gradings"]["anna"].pop("timestamp") == "2025-02-01 12:00:00"
    before["gradings"]["anna"].pop("timestamp")
    assert after["gradings"]["anna"] == before["gradings"]["anna"]


def test_a_resubmission_from_a_machine_with_a_slow_clock_is_graded(classroom: Classroom) -> None:
    other = (classroom.folder("bela") / f"{LESSON}.ipynb").read_bytes()
    classroom.hand_in("anna", other, at="2024-12-30 12:00:00 UTC")  # seems older than her first submission
    assert classroom.autograde() == []
    assert "# 1" in cell_of(classroom.autograded("anna"), "attention_scores").source


def test_a_damaged_result_is_not_used_and_the_old_grade_stays(classroom: Classroom) -> None:
    before = classroom.state()
    for path in store_of(classroom).rglob("*.jsonl"):
        path.write_bytes(path.read_bytes()[:-100])
    said = classroom.autograde(force=True)
    assert sum("is not used: its checksum doesn't match" in line for line in said) == 2
    assert classroom.state()["gradings"] == before["gradings"]  # because nothing can run on this machine
    assert classroom.state()["files"] == before["files"]
    assert set(classroom.not_graded) == {"anna", "bela"}


def test_a_submission_that_changes_while_it_is_graded_is_graded_as_it_is_in_the_end(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = (classroom.folder("bela") / f"{LESSON}.ipynb").read_bytes()
    grade = CourseAutograde.grade

    def hand_in_meanwhile(self: Any, prepared: Any, *arguments: Any) -> None:
        grade(self, prepared, *arguments)
        if prepared.submission.student == "anna":
            classroom.hand_in("anna", other, at="2025-02-01 12:00:00 UTC")

    monkeypatch.setattr(CourseAutograde, "grade", hand_in_meanwhile)
    assert classroom.autograde(force=True) == []
    assert "# 1" in cell_of(classroom.autograded("anna"), "attention_scores").source


def test_changed_checks_leave_grades_alone_and_are_reported(classroom: Classroom) -> None:
    before = classroom.state()
    config = classroom.course / "autograder/nbgrader_config.py"
    config.write_text(config.read_text() + "\nc.SandboxedExecute.cell_seconds = 7.0\n")
    said = classroom.autograde()
    assert [
        line
        for line in said
        if "01-scores: checks, points or limits have changed since 2 of its submissions were graded" in line
    ]
    assert classroom.state() == before


def test_the_command_deletes_damaged_and_outdated_results(
    classroom: Classroom, capsys: pytest.CaptureFixture[str]
) -> None:
    course = ["--course", str(classroom.course)]
    assert main(["prune", *course]) == 0
    assert "Deleted 0 results" in capsys.readouterr().out
    first, second = store_of(classroom).rglob("*.jsonl")
    first.write_bytes(first.read_bytes()[:-100])
    assert main(["prune", *course]) == 0
    assert list(store_of(classroom).rglob("*.jsonl")) == [second]
    config = classroom.course / "autograder/nbgrader_config.py"
    config.write_text(config.read_text() + "\nc.SandboxedExecute.cell_seconds = 7.0\n")
    assert main(["prune", *course]) == 0
    assert not second.exists()


def test_the_command_leaves_files_alone_that_another_process_writes_or_deletes(
    classroom: Classroom, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    course = ["--course", str(classroom.course)]
    result = next(store_of(classroom).rglob("*.jsonl"))
    young, old = result.with_name(".young.1.2"), result.with_name(".old.1.2")
    for path in (young, old):
        path.write_bytes(b"{")
    os.utime(old, (time.time() - 86400, time.time() - 86400))
    dangling = result.with_name("dangling.jsonl")
    dangling.symlink_to("nowhere")
    assert main(["prune", *course]) == 0
    assert "Deleted 2 results" in capsys.readouterr().out
    assert young.exists()
    assert not old.exists()
    assert not dangling.is_symlink()

    entries = ResultStore.entries

    def delete_meanwhile(self: ResultStore) -> Iterator[tuple[Path, Header | None]]:
        for path, header in entries(self):
            path.unlink()
            yield path, header

    monkeypatch.setattr(ResultStore, "entries", delete_meanwhile)
    assert main(["prune", *course]) == 0
    assert "Deleted 0 results" in capsys.readouterr().out
