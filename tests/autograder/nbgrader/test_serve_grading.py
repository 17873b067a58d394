"""The grading service: a verdict within seconds of a submission, and no work left at the deadline."""

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import CollectApp, FetchFeedbackApp, ReleaseAssignmentApp, SubmitApp
from sqlalchemy.exc import OperationalError

from autograder.judge.lesson_source import LessonSource
from autograder.nbgrader import exchange, serve_grading
from autograder.nbgrader.course_folder import CourseFolder
from autograder.nbgrader.preparation import Preparation, PreparedSubmission
from autograder.nbgrader.serve_grading import SECRET, GradingService
from autograder.results.local_executor import SharedExecutor
from autograder.results.results import Results
from autograder.sandbox.confinement import probe
from autograder.submissions.folder import Submission
from course_lib.curriculum import public_curriculum
from tests.autograder.nbgrader.classroom import RIGHT, Classroom, release, run_app, solved
from tests.autograder.small_course import LESSON, cell_of

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(not probe().sufficient, reason="nothing here can confine code"),
]

LOG = logging.getLogger("serve-grading")


@pytest.fixture
def classroom(released_course: Path, tmp_path: Path) -> Classroom:
    """A course with its own exchange."""
    course = shutil.copytree(released_course, tmp_path / "course")
    (tmp_path / "exchange").mkdir(mode=0o777)
    (tmp_path / "exchange").chmod(0o777)
    path = course / "autograder/nbgrader_config.py"
    path.write_text(
        path.read_text()
        + f'\nc.Exchange.root = "{tmp_path}/exchange"\nc.Exchange.cache = "{tmp_path}/cache"\n'
        + "c.SandboxedExecute.workers = 1\n"
    )
    return Classroom(course)


def answered(classroom: Classroom, source: str) -> nbformat.NotebookNode:
    notebook = solved(classroom.released)
    cell_of(notebook, "attention_scores").source = source
    return notebook


@pytest.fixture
def service(classroom: Classroom, workers: SharedExecutor) -> Iterator[GradingService]:
    course = CourseFolder(classroom.course)
    with course.execute.running(workers) as results:
        yield GradingService(course, results, 2, True, LOG)


def run_until(service: GradingService, condition: Callable[[], object]) -> float:
    start = time.monotonic()
    service.step()
    while not condition():
        service.step()
        assert time.monotonic() - start < 240
        time.sleep(0.05)
    return time.monotonic() - start


def test_a_submission_is_graded_before_the_deadline(
    classroom: Classroom, service: GradingService, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    caplog.set_level(logging.INFO)
    assert run_app(monkeypatch, ReleaseAssignmentApp, classroom.course / "autograder", LESSON) == 0
    home = tmp_path / "student"
    (home / LESSON).mkdir(parents=True)
    (home / "nbgrader_config.py").write_text(
        f'c = get_config()\nc.Exchange.root = "{tmp_path}/exchange"\nc.Exchange.cache = "{tmp_path}/cache"\n'
        'c.CourseDirectory.course_id = "build-the-transformer"\n'
    )
    nbformat.write(answered(classroom, RIGHT), home / LESSON / f"{LESSON}.ipynb")
    assert run_app(monkeypatch, SubmitApp, home, LESSON) == 0
    run_until(service, lambda: "5 of 5 automatic points" in caplog.text)

    (feedback,) = (tmp_path / "exchange/build-the-transformer/feedback").glob("*.html")
    assert "attention_scores: 4 of 4" in feedback.read_text()
    assert run_app(monkeypatch, FetchFeedbackApp, home, LESSON) == 0
    assert list(home.rglob("feedback/**/*.html"))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a notebook was run again")

    assert run_app(monkeypatch, CollectApp, classroom.course / "autograder", LESSON) == 0
    monkeypatch.setattr("autograder.results.local_executor.LocalExecutor.submit", refuse)
    assert classroom.autograde() == []
    (student,) = os.listdir(classroom.course / "autograder/autograded")
    assert classroom.scores(student) == {
        "check_predict_spread": 1,
        "check_attention_scores": 4,
        "explain_root": None,
    }


def test_bad_submissions_and_haste_stop_nobody(
    classroom: Classroom, service: GradingService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    classroom.hand_in("bela", b"<html>")
    folder = classroom.hand_in("carl", answered(classroom, "import os\nos._exit(1)"))
    (folder / "link").symlink_to("/etc/hostname")
    for number in range(4):
        classroom.hand_in("anna", answered(classroom, f"{RIGHT}  # {number}"))
        run_until(service, lambda: not service._running)
    said = [record.getMessage() for record in caplog.records if record.name == LOG.name]
    assert [line for line in said if line.startswith("bela, 01-scores: not graded: it is a web page")]
    assert [
        line
        for line in said
        if line.startswith("carl, 01-scores: 0 of 5") or "carl, 01-scores: 1 of 5" in line
    ]
    assert sum(line.startswith("anna, 01-scores: 5 of 5") for line in said) == 2  # at most two an hour
    assert not (classroom.course / "autograder/autograded").exists()
    assert classroom.scores("anna") is None
    shutil.rmtree(classroom.folder("carl"))
    service.step()


def test_submissions_wait_until_the_gradebook_has_the_lesson(
    classroom: Classroom, service: GradingService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    gradebook = classroom.course / "autograder/gradebook.db"
    with Gradebook(f"sqlite:///{gradebook}") as without:
        without.remove_assignment(LESSON)
    classroom.hand_in("anna", answered(classroom, RIGHT))
    for _ in range(3):
        service.step()
        assert not service._waiting
    said = [record.getMessage() for record in caplog.records if record.name == LOG.name]
    assert said == [
        f"{LESSON}: submissions wait, because the gradebook has no such lesson yet. "
        f"Run `nbgrader generate_assignment {LESSON}`."
    ]
    release(classroom.course)
    run_until(service, lambda: f"anna, {LESSON}: 5 of 5 automatic points" in caplog.text)


def test_a_folder_that_is_not_readable_and_a_broken_gradebook_stop_nobody(
    classroom: Classroom, service: GradingService, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    caplog.set_level(logging.INFO)
    inbound = tmp_path / "exchange/build-the-transformer/inbound"
    hidden = inbound / f"bela+{LESSON}+2024-01-01"
    hidden.mkdir(parents=True)
    stat = os.stat

    def refuse(path: Path, **options: bool) -> os.stat_result:  # needed, because root can read all folders
        if hidden in Path(path).parents:
            raise PermissionError(f"{path}: permission denied")
        return stat(path, **options)

    def fail(*_: object) -> None:
        raise OperationalError("SELECT", {}, Exception("the server closed the connection"))

    monkeypatch.setattr("os.stat", refuse)
    folder = classroom.hand_in("anna", answered(classroom, RIGHT))
    (folder / SECRET).write_text("secret")
    with monkeypatch.context() as broken:
        broken.setattr(Gradebook, "find_assignment", fail)
        for _ in range(2):
            service.step()
    assert [
        record.getMessage() for record in caplog.records if "submissions wait" in record.getMessage()
    ] == [
        f"{LESSON}: submissions wait, because the gradebook cannot be used: the server closed the "
        "connection. Check the database and its address, COURSE_GRADEBOOK"
    ]

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("autograder.nbgrader.serve_grading.atomic_write_text", full)
    run_until(service, lambda: f"anna, {LESSON}: not reported" in caplog.text)
    assert f"anna, {LESSON}: 5 of 5 automatic points" in caplog.text


def test_a_collected_copy_does_not_replace_a_newer_submission(
    classroom: Classroom, service: GradingService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    collected = classroom.hand_in("anna", answered(classroom, "attention_scores = None"))
    for path in (*collected.iterdir(), collected):
        os.utime(path, (time.time() - 60, time.time() - 60))
    newer = tmp_path / f"exchange/build-the-transformer/inbound/anna+{LESSON}+2024-01-01"
    newer.mkdir(parents=True)
    nbformat.write(answered(classroom, RIGHT), newer / f"{LESSON}.ipynb")
    (newer / SECRET).write_text("secret")
    run_until(service, lambda: "automatic points" in caplog.text)
    service.step()
    assert f"anna, {LESSON}: 5 of 5 automatic points" in caplog.text
    assert caplog.text.count("automatic points") == 1


def test_released_feedback_is_never_replaced(
    classroom: Classroom, service: GradingService, tmp_path: Path
) -> None:
    folder = classroom.hand_in("anna", answered(classroom, RIGHT))
    (folder / SECRET).write_text("secret")
    feedback = tmp_path / "exchange/build-the-transformer/feedback"
    feedback.mkdir(parents=True)
    run_until(service, lambda: list(feedback.glob("*.html")))
    (page,) = feedback.glob("*.html")
    automatic = page.read_text()
    assert "Checked automatically." in automatic

    def report_again() -> str:
        """Report all submissions again, as after a restart, and return the page."""
        service._seen.clear()
        run_until(service, lambda: not service._running)
        return page.read_text()

    page.write_text(automatic.replace("4 of 4", "3 of 4"))  # like the page of an older check
    assert report_again() == automatic
    released = f"<!DOCTYPE html>\n<html>{automatic}</html>"
    page.write_text(released)  # even if nobody has graded a cell by hand
    assert report_again() == released


def test_a_submission_in_another_students_name_does_not_run(
    classroom: Classroom,
    service: GradingService,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    inbound = classroom.course.parent / "exchange/build-the-transformer/inbound"
    accounts: dict[str, str] = {}
    for student, account, time_ in (("anna", "anna", "10"), ("mal", "mal", "10"), ("anna", "mal", "11")):
        folder = inbound / f"{student}+{LESSON}+2025-01-30 {time_}:00:00.000000 UTC"
        folder.mkdir(parents=True)
        (folder / SECRET).write_text("x")
        accounts[folder.name] = account
    (inbound / f"\x1b]0;title\x07+{LESSON}+2025-01-30 10:00:00.000000 UTC").mkdir()
    monkeypatch.setattr(exchange, "owner", lambda path: accounts.get(path.name, "nobody"))
    found = {submission.student: Path(submission.folder).name for submission in service._inbound()}
    assert sorted(found) == ["anna", "mal"]
    assert accounts[found["anna"]] == "anna"
    assert "not graded: it was handed in by mal" in caplog.text


def test_a_folder_that_is_deleted_while_it_is_looked_at_stops_nothing(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "deleted"):
        assert len(serve_grading._changed_at(str(folder))) == folder.is_dir()
    assert serve_grading._newest(()) == 0


def test_the_rate_limit_counts_all_lessons_of_a_student(
    service: GradingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(_: Preparation, submission: Submission, __: Results) -> PreparedSubmission:
        return PreparedSubmission(submission, {}, "", LessonSource(LESSON, public_curriculum()), {})

    monkeypatch.setattr(Preparation, "inspect", lambda *_: None)
    monkeypatch.setattr(Preparation, "prepare", prepare)
    monkeypatch.setattr(service, "_is_ready", lambda _: False)
    for student in ("anna", "bela"):
        for lesson in ("01-scores", "02-products", "03-sums"):
            service._waiting[student, lesson] = Submission(student, lesson, "", ())
    service._start()
    service._start()
    started = [prepared.submission.student for prepared in service._running]
    assert started == ["anna"] * 2 + ["bela"] * 2  # two submissions an hour
    assert len(service._waiting) == 2
