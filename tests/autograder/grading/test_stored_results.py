"""Grading with the result store, in the sandbox: what has been computed once is never computed again."""

import shutil
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from small_course import LESSON, SmallCourse, cell_of
from small_desk import Desk, configuration, solved

from autograder.nbgrader import converters
from autograder.results.__main__ import main
from autograder.results.local_executor import SharedExecutor
from autograder.sandbox.confinement import probe

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(not probe().sufficient, reason="nothing here can confine code"),
]

RIGHT = "def attention_scores(query, key):\n    return query @ key.mT / query.shape[-1] ** 0.5"


class NoExecutor(Executor):
    """Refuses to run anything."""

    workers = 1

    def submit(self, *_: Any, **__: Any) -> Future[Any]:  # type: ignore[override]
        raise AssertionError("a notebook was run again")


class NoWorkers(SharedExecutor):
    @contextmanager
    def borrow(self, *_: Any) -> Iterator[Any]:
        yield NoExecutor()


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A class of two, graded in sandboxes."""
    course = SmallCourse.make(tmp_path_factory.mktemp("stored") / "course")
    config = configuration(course.root)
    GenerateAssignment(coursedir=CourseDirectory(config=config, assignment_id=LESSON), config=config).start()
    desk = Desk(course.root)
    shutil.copy(course.root / "autograder/gradebook.db", course.root / "autograder/new.db")
    for number, student in enumerate(("anna", "bela")):
        notebook = solved(desk.released)
        cell_of(notebook, "attention_scores").source = f"{RIGHT}  # {number}"
        desk.hand_in(student, notebook, at="2025-01-30 12:00:00 UTC")
    assert desk.autograde() == []
    assert desk.scores("anna") == {
        "check_predict_spread": 1,
        "check_attention_scores": 4,
        "explain_root": None,
    }
    return desk


@pytest.fixture
def desk(graded: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A copy of that class, with the same store, on a machine that refuses to run notebooks."""
    shutil.copytree(graded.course, tmp_path / "course")
    usual = converters.CourseAutograde.__init__
    monkeypatch.setattr(
        converters.CourseAutograde,
        "__init__",
        lambda self, *arguments, **options: usual(self, *arguments, **options, workers=NoWorkers()),
    )
    return Desk(tmp_path / "course")


#: A locked cell whose check fails, whatever the student wrote.
BROKEN = """
from course_lib.checks.exercises.registry import catalogue
def broken(query, key):
    raise ImportError("a fixture is missing")
entry = catalogue()["attention_scores"]
object.__setattr__(entry, "reference", broken)
check("attention_scores", globals(), grading={"points": 4, "seed": 5})
"""


def test_a_broken_check_keeps_the_old_grades(graded: Desk, tmp_path: Path) -> None:
    desk = Desk(shutil.copytree(graded.course, tmp_path / "course"))
    with Gradebook(f"sqlite:///{desk.course}/autograder/gradebook.db") as gradebook:
        gradebook.find_source_cell("check_attention_scores", LESSON, LESSON).source = BROKEN
        gradebook.db.commit()
    desk.hand_in("carl", solved(desk.released))
    before, stored = desk.state(), sorted(store_of(desk).rglob("*"))
    said = desk.autograde(force=True)
    assert said[-1].startswith("nbgrader ends with an error: 3 of 3 submissions could not be graded")
    for student in ("anna", "bela", "carl"):
        assert "its reference raised ImportError (a fixture is missing)" in desk.not_graded[student]
    after = desk.state()
    assert set(desk.scores("carl").values()) == {None}
    assert {student: after["gradings"][student] for student in ("anna", "bela")} == before["gradings"]
    assert after["files"] == before["files"]
    assert sorted(store_of(desk).rglob("*")) == stored  # so the same notebook runs again later


def store_of(desk: Desk) -> Path:
    return desk.course / "autograder/result_store"


def test_the_same_class_is_graded_again_without_running_anything(desk: Desk) -> None:
    before = desk.state()
    assert desk.autograde(force=True) == []
    assert desk.state() == before
    shutil.rmtree(desk.course / "autograder/autograded")
    shutil.copy(desk.course / "autograder/new.db", desk.course / "autograder/gradebook.db")
    assert desk.autograde() == []
    assert desk.state() == before


def test_the_same_bytes_handed_in_again_only_change_the_time(desk: Desk) -> None:
    before = desk.state()
    (desk.folder("anna") / "timestamp.txt").write_text("2025-02-01 12:00:00 UTC")
    assert desk.autograde() == []
    after = desk.state()
    assert after["gradings"]["anna"].pop("timestamp") == "2025-02-01 12:00:00"
    before["gradings"]["anna"].pop("timestamp")
    assert after["gradings"]["anna"] == before["gradings"]["anna"]


def test_a_resubmission_from_a_machine_with_a_slow_clock_is_graded(desk: Desk) -> None:
    other = (desk.folder("bela") / f"{LESSON}.ipynb").read_bytes()
    desk.hand_in("anna", other, at="2024-12-30 12:00:00 UTC")  # before her first submission, it seems
    assert desk.autograde() == []
    assert "# 1" in cell_of(desk.autograded("anna"), "attention_scores").source


def test_a_damaged_result_is_not_used_and_the_old_grade_stays(desk: Desk) -> None:
    before = desk.state()
    for path in store_of(desk).rglob("*.jsonl"):
        path.write_bytes(path.read_bytes()[:-100])
    said = desk.autograde(force=True)
    assert sum("is not used: its checksum doesn't match" in line for line in said) == 2
    assert desk.state()["gradings"] == before["gradings"]  # nothing could run here
    assert desk.state()["files"] == before["files"]
    assert set(desk.not_graded) == {"anna", "bela"}


def test_a_submission_that_changes_while_it_is_graded_is_graded_as_it_is_in_the_end(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = (desk.folder("bela") / f"{LESSON}.ipynb").read_bytes()
    convert = converters.CourseAutograde._convert

    def hand_in_meanwhile(self: Any, prepared: Any, gradebook: Any) -> None:
        convert(self, prepared, gradebook)
        if prepared.submission.student == "anna":
            desk.hand_in("anna", other, at="2025-02-01 12:00:00 UTC")

    monkeypatch.setattr(converters.CourseAutograde, "_convert", hand_in_meanwhile)
    assert desk.autograde(force=True) == []
    assert "# 1" in cell_of(desk.autograded("anna"), "attention_scores").source


def test_changed_checks_leave_grades_alone_and_are_reported(desk: Desk) -> None:
    before = desk.state()
    config = desk.course / "autograder/nbgrader_config.py"
    config.write_text(config.read_text() + "\nc.SandboxedExecute.cell_seconds = 7.0\n")
    said = desk.autograde()
    assert [line for line in said if "2 submissions of 01-scores were graded with other checks" in line]
    assert desk.state() == before


def test_the_command_lists_verifies_and_prunes(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    course = ["--course", str(desk.course)]
    assert main(["list", *course]) == main(["verify", *course]) == main(["prune", *course]) == 0
    printed = capsys.readouterr().out
    assert "2 results, 0 damaged." in printed
    assert "Deleted 0 results" in printed
    first, second = store_of(desk).rglob("*.jsonl")
    first.write_bytes(b"{}")
    config = desk.course / "autograder/nbgrader_config.py"
    assert main(["verify", *course]) == 1
    assert main(["prune", *course]) == 0
    assert list(store_of(desk).rglob("*.jsonl")) == [second]
    config.write_text(config.read_text() + "\nc.SandboxedExecute.cell_seconds = 7.0\n")
    assert main(["prune", "--older-than", "1", *course]) == 0
    assert second.exists()
    assert main(["prune", *course]) == 0
    assert not second.exists()
