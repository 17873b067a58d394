"""Failures of the machine during grading: every grade is kept, and every failure is reported by name."""

import csv
import logging
import re
import sqlite3
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import ExportApp
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import CsvExportPlugin, ExportPlugin
from nbgrader.preprocessors import Execute, SaveAutoGrades
from sqlalchemy.exc import OperationalError

from autograder.judge.job import Cell, Job, NotComputedError, Result
from autograder.nbgrader.generate_feedback import CourseGenerateFeedback
from autograder.nbgrader.replacement import FolderReplacement
from autograder.nbgrader.score_snapshots import snapshot_of
from autograder.reports.csv_export import CsvExport
from autograder.reports.learning_management import final_grades
from autograder.results.results import Results
from autograder.results.store import ResultStore
from autograder.sandbox.limits import Limits
from course_lib.curriculum.course_file import CourseError
from tests.autograder.nbgrader.classroom import Classroom, configuration, solved
from tests.autograder.small_course import LESSON, cell_of
from tests.small_disk import small_disk

pytestmark = pytest.mark.slow


@pytest.fixture
def graded(classroom: Classroom) -> Classroom:
    """A graded class of two, in which `anna` has manual points and has handed in again."""
    for student in ("anna", "bela"):
        classroom.hand_in(student, solved(classroom.released), at="2025-01-30 12:00:00 UTC")
    assert classroom.autograde() == []
    with Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db") as gradebook:
        gradebook.find_grade("explain_root", LESSON, LESSON, "anna").manual_score = 2
        gradebook.db.commit()
    again = solved(classroom.released)
    cell_of(again, "attention_scores").source += "  # again"
    classroom.hand_in("anna", again, at="2025-02-01 12:00:00 UTC")
    classroom.hand_in("anna", b"x" * 700_000, "data.bin")
    return classroom


def test_a_full_disk_keeps_the_old_grade(graded: Classroom) -> None:
    before = graded.state()
    with small_disk(graded.course / "autograder/autograded", kilobytes=300):
        said = graded.autograde()
        after = graded.state()
        assert [line for line in said if line.startswith("anna, 01-scores: not graded: ")]
        assert "No space left on device" in graded.not_graded["anna"]
        assert after["gradings"] == before["gradings"]
        assert after["files"] == before["files"]
    assert said[-1].startswith("nbgrader ends with an error: 1 of 2 submissions could not be graded")


def exported(classroom: Classroom, exporter: type[ExportPlugin], **options: object) -> str:
    """Return the CSV file that an exporter writes."""
    target = classroom.course / "grades.csv"
    app = ExportApp(config=configuration(classroom.course))
    with Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db") as gradebook:
        exporter(parent=app, to=str(target), **options).export(gradebook)
    return target.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "options", [{}, {"student": ["anna", "dora"]}, {"assignment": ["another"]}, {"assignment": [LESSON]}]
)
def test_the_export_equals_nbgraders_own(graded: Classroom, options: dict[str, list[str]]) -> None:
    with Gradebook(f"sqlite:///{graded.course}/autograder/gradebook.db") as gradebook:
        gradebook.add_student("dora", first_name="Dóra", last_name="Nagy", email="dora@example.org")
        gradebook.update_or_create_assignment("another", duedate="2025-01-31 12:00:00 UTC")
        gradebook.find_submission(LESSON, "bela").notebooks[0].late_submission_penalty = 0.5
        gradebook.db.commit()
    own = exported(graded, CsvExportPlugin, **options)
    rounded = re.sub(r"\d+\.\d{10,}", lambda number: str(round(float(number[0]), 9)), own)
    assert exported(graded, CsvExport, **options) == rounded


def test_the_export_quotes_commas(graded: Classroom) -> None:
    with Gradebook(f"sqlite:///{graded.course}/autograder/gradebook.db") as gradebook:
        gradebook.find_student("anna").last_name = "Kovács, Jr."
        gradebook.db.commit()
    rows = csv.DictReader(exported(graded, CsvExport).splitlines())
    assert {row["student_id"]: row["last_name"] for row in rows}["anna"] == "Kovács, Jr."


def test_an_export_that_fails_keeps_the_old_file(graded: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("SELECT", {}, Exception("the server closed the connection"))

    before = exported(graded, CsvExport)
    monkeypatch.setattr(Gradebook, "assignment_submissions", fail)
    with pytest.raises(OperationalError):
        exported(graded, CsvExport)
    assert (graded.course / "grades.csv").read_text(encoding="utf-8") == before


def test_what_was_never_graded_has_no_points_in_exports(
    graded: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise NotComputedError("the check failed")

    graded.hand_in("carl", solved(graded.released), at="2025-01-30 12:00:00 UTC")
    with Gradebook(f"sqlite:///{graded.course}/autograder/gradebook.db") as gradebook:
        gradebook.add_student("carl")
    before = graded.scores("anna")
    monkeypatch.setattr(Results, "get", fail)
    graded.autograde()
    assert "carl" in graded.not_graded
    assert graded.scores("anna") == before
    rows = csv.DictReader(exported(graded, CsvExport).splitlines())
    scores = {row["student_id"]: row["score"] for row in rows}
    with Gradebook(f"sqlite:///{graded.course}/autograder/gradebook.db") as gradebook:
        points = {student.id: student.points for student in final_grades(gradebook, [LESSON])}
    assert scores["carl"] == ""
    assert float(scores["anna"]) > 0
    assert points["carl"] == {}


def test_a_submission_without_points_has_none_in_exports(graded: Classroom) -> None:
    """Simulate a running or killed run that has added the submission to the gradebook, but no points."""
    graded.hand_in("carl", solved(graded.released))
    with Gradebook(f"sqlite:///{graded.course}/autograder/gradebook.db") as gradebook:
        gradebook.update_or_create_student("carl")
        gradebook.update_or_create_submission(LESSON, "carl")
    scores = {
        row["student_id"]: row["score"] for row in csv.DictReader(exported(graded, CsvExport).splitlines())
    }
    assert scores["carl"] == ""
    assert float(scores["anna"]) > 0


def test_an_interrupted_run_is_undone_even_if_the_next_submission_is_unreadable(graded: Classroom) -> None:
    before, page = graded.scores("anna"), graded.autograded("anna")
    folder = graded.folder("anna", "autograded")
    with Gradebook(f"sqlite:///{graded.course}/autograder/gradebook.db") as gradebook:
        FolderReplacement(folder).begin(snapshot_of(gradebook, LESSON, "anna"))
        gradebook.find_grade("check_attention_scores", LESSON, LESSON, "anna").auto_score = 0.0
        gradebook.db.commit()
    graded.hand_in("anna", graded.released, at="yesterday")
    graded.autograde()
    assert "anna" in graded.not_graded
    assert graded.scores("anna") == before
    assert graded.autograded("anna") == page


def test_a_run_that_cannot_start_says_why(graded: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CourseError("Students' code can't be confined on this machine.")

    before = graded.state()
    monkeypatch.setattr("autograder.nbgrader.autograde.GradingRun", refuse)
    message = "Students' code can't be confined on this machine."
    assert graded.autograde() == [message, f"nbgrader ends with an error: {message}"]
    assert graded.state() == before


@pytest.mark.parametrize("steps", [[SaveAutoGrades], [Execute, SaveAutoGrades]])
def test_a_configuration_without_sandboxes_grades_nothing(graded: Classroom, steps: list[object]) -> None:
    before = graded.state()
    *_, last = graded.autograde(autograde_preprocessors=steps)
    assert last.startswith(
        "nbgrader ends with an error: c.Autograde.autograde_preprocessors has no enabled SandboxedExecute"
    )
    assert graded.state() == before


class Once:
    """An executor that immediately returns an empty result and counts its calls."""

    workers, calls = 1, 0

    def submit(self, *_: object, **__: object):
        self.calls += 1
        future: Future[tuple[bytes, float]] = Future()
        future.set_result((Result([[]]).to_json(), 1.0))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing, because nothing has to be stopped."""


@pytest.mark.parametrize("kind", ["full", "a file"])
def test_a_store_that_cannot_be_written_loses_no_result(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = ResultStore(tmp_path / "store")
    job = Job(LESSON, (Cell("only", "1", False, False),), (), Limits())
    executor = Once()
    results = Results(store, executor, logging.getLogger("grading"))
    if kind == "a file":
        store.folder.write_text("in the way")
        assert results.get(None, job).outputs == [[]]
    else:
        with small_disk(store.folder, kilobytes=8):
            (store.folder / "filler").write_bytes(b"x" * 8192)
            assert results.get(None, job).outputs == [[]]
    assert executor.calls == 1
    assert len(caplog.records) == 1
    assert "Results cannot be stored" in caplog.text or "cannot be read" in caplog.text


def test_a_locked_gradebook_keeps_the_old_grade(graded: Classroom) -> None:
    before = graded.state()
    path = graded.course / "autograder/gradebook.db"
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with sqlite3.connect(path, timeout=30) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            locked.set()
            done.wait()
            connection.rollback()

    holder = threading.Thread(target=hold)
    holder.start()
    locked.wait()
    with suppress(OperationalError):  # the run may not even be able to start
        # By default, SQLite would wait for 5 seconds.
        graded.autograde(student_id="anna", db_url=f"sqlite:///{path}?timeout=0.5")
    done.set()
    holder.join()
    after = graded.state()
    assert after["gradings"] == before["gradings"]
    assert after["files"] == before["files"]
    assert graded.autograde() == []
    assert graded.state()["gradings"]["anna"] != before["gradings"]["anna"]


def generate_feedback(classroom: Classroom) -> None:
    config = configuration(classroom.course)
    course = CourseDirectory(config=config, assignment_id=LESSON)
    converter = CourseGenerateFeedback(coursedir=course, config=config)
    converter.force = True
    converter.start()


def test_feedback_that_fails_keeps_the_old_page(graded: Classroom) -> None:
    generate_feedback(graded)
    pages = {student: graded.folder(student, "feedback") / f"{LESSON}.html" for student in ("anna", "bela")}
    before = pages["anna"].read_bytes()
    damaged = graded.folder("anna", "autograded") / f"{LESSON}.ipynb"
    damaged.unlink()
    damaged.write_text("not a notebook")
    pages["bela"].write_text("old")
    with pytest.raises(NbGraderException):
        generate_feedback(graded)
    assert pages["anna"].read_bytes() == before
    assert pages["bela"].read_text() != "old"
