"""Extensions for individual students, before and after they hand in."""

import csv
from datetime import timedelta
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import CollectApp, ExportApp

from autograder.marking.answers import LessonAnswers
from autograder.nbgrader.course_folder import CourseFolder
from autograder.nbgrader.extend import main
from autograder.nbgrader.generate_feedback import CourseGenerateFeedback
from autograder.reports.class_report.records import read_records
from autograder.reports.csv_export import CsvExport
from autograder.reports.learning_management import final_grades
from tests.autograder.nbgrader.classroom import Classroom, configuration, run_app, solved
from tests.autograder.nbgrader.stand_in import StandInExecute
from tests.autograder.small_course import LESSON

pytestmark = pytest.mark.slow

LATE = "2025-02-01 12:00:00 UTC"  # one day after the deadline


def gradebook(classroom: Classroom) -> Gradebook:
    return Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db")


@pytest.fixture(autouse=True)
def due(classroom: Classroom) -> None:
    """Set the deadline, and add two students."""
    with gradebook(classroom) as book:
        book.update_or_create_assignment(LESSON, duedate="2025-01-31 12:00:00 UTC")
        book.add_student("anna")
        book.add_student("bela")


def extend(classroom: Classroom, *arguments: str) -> int:
    return main([*arguments, "--course", str(classroom.course)])


def penalty(classroom: Classroom, student: str) -> float | None:
    with gradebook(classroom) as book:
        found: float | None = book.find_submission(LESSON, student).notebooks[0].late_submission_penalty
        return found


def test_who_got_more_time_before_handing_in_is_not_late(
    classroom: Classroom, capsys: pytest.CaptureFixture[str]
) -> None:
    assert extend(classroom, LESSON, "anna", "--days", "2") == 0
    assert capsys.readouterr().out == (
        "anna has until 2025-02-02 12:00 UTC for 01-scores, instead of 2025-01-31 12:00 UTC.\n"
    )
    assert extend(classroom, LESSON, "anna", "--days", "1", "--hours", "2", "--minutes", "30") == 0
    assert "until 2025-02-01 14:30 UTC for 01-scores, instead of 2025-02-02 12:00" in capsys.readouterr().out
    for student in ("anna", "bela"):
        classroom.hand_in(student, solved(classroom.released), at=LATE)
    classroom.autograde()
    assert (penalty(classroom, "anna"), penalty(classroom, "bela")) == (None, 1.0)
    with gradebook(classroom) as book:
        assert book.find_grade("explain_root", LESSON, LESSON, "anna").needs_manual_grade


def test_more_time_after_grading_takes_the_penalty_back_with_the_feedback(
    classroom: Classroom, capsys: pytest.CaptureFixture[str]
) -> None:
    classroom.hand_in("anna", solved(classroom.released), at=LATE)
    classroom.autograde()
    before = classroom.scores("anna")
    assert extend(classroom, LESSON, "anna", "--days", "2") == 0
    assert "Run `nbgrader generate_feedback 01-scores` to compute the late" in capsys.readouterr().out
    assert penalty(classroom, "anna") == 1.0
    converter = CourseGenerateFeedback(
        coursedir=CourseFolder(classroom.course).directory(LESSON), config=configuration(classroom.course)
    )
    converter.start()
    assert penalty(classroom, "anna") is None
    assert classroom.scores("anna") == before


def test_a_first_grading_that_fails_keeps_the_time(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    extend(classroom, LESSON, "anna", "--days", "2")
    classroom.hand_in("anna", solved(classroom.released), at=LATE)
    with monkeypatch.context() as broken:
        broken.setattr(StandInExecute, "preprocess", fail)
        classroom.autograde()
    assert "anna" in classroom.not_graded
    classroom.autograde()
    assert penalty(classroom, "anna") is None
    with gradebook(classroom) as book:
        assert book.find_submission(LESSON, "anna").extension == timedelta(days=2)


def test_who_has_only_got_more_time_has_handed_in_nothing(classroom: Classroom) -> None:
    extend(classroom, LESSON, "anna", "--days", "2")
    course = CourseFolder(classroom.course)
    target = classroom.course / "grades.csv"
    with gradebook(classroom) as book:
        records = read_records(book, course.directory())
        assert (records.submissions, records.not_graded) == ([], {})
        assert [student.points for student in final_grades(book, [LESSON])] == [{}, {}]
        CsvExport(parent=ExportApp(config=course.config), to=str(target)).export(book)
    with target.open(newline="") as file:
        assert [row["score"] for row in csv.DictReader(file)] == ["0.0", "0.0"]
    [(waiting, _)] = LessonAnswers(course, LESSON).open_counts().values()
    assert waiting == 0


def test_collecting_before_the_deadline_collects_before_each_students_own(
    classroom: Classroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = classroom.course / "autograder/nbgrader_config.py"
    config.write_text(f'{config.read_text()}\nc.Exchange.root = "{tmp_path}/exchange"\n')
    inbound = tmp_path / "exchange/build-the-transformer/inbound"
    times = [f"2025-{day} 12:00:00.000000 UTC" for day in ("01-31", "02-01", "02-03")]
    for student in ("anna", "bela", "carl"):
        for time in times:
            folder = inbound / f"{student}+{LESSON}+{time}"
            folder.mkdir(parents=True)
            (folder / "timestamp.txt").write_text(time)
            (folder / f"{LESSON}.ipynb").write_text("{}")
    extend(classroom, LESSON, "bela", "--days", "2")
    options = ("--before-duedate", "--ExchangeCollect.check_owner=False")
    assert run_app(monkeypatch, CollectApp, classroom.course / "autograder", LESSON, *options) == 0
    collected = [
        (classroom.folder(student) / "timestamp.txt").read_text() for student in ("anna", "bela", "carl")
    ]
    assert collected == [times[0], times[1], times[0]]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((LESSON, "zoe", "--days", "1"), "the gradebook has no student 'zoe'; it has: anna, bela"),
        (
            ("1-scores", "anna", "--days", "1"),
            "the gradebook has no lesson '1-scores'; it has: 01-scores, later",
        ),
        (
            ("later", "anna", "--days", "1"),
            "later has no deadline to extend. Set one with `nbgrader db assign",
        ),
        (
            ("planned", "anna", "--days", "1"),
            "planned has not been generated. Run `nbgrader generate_assignm",
        ),
        ((LESSON, "anna"), "such as --days 2; got 0 days, 0 hours, 0 minutes"),
        (
            (LESSON, "anna", "--days", "2", "--hours", "-1"),
            "such as --days 2; got 2 days, -1 hours, 0 minutes",
        ),
        ((LESSON, "anna", "--days", "99999999999"), "expected a time from 1 minute to 3650 days"),
    ],
)
def test_a_time_that_cannot_be_given_changes_nothing(
    classroom: Classroom, arguments: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with gradebook(classroom) as book:
        if "planned" in problem:
            book.update_or_create_assignment("planned", duedate="2025-01-31 12:00:00 UTC")
        book.update_or_create_assignment("later")
    assert extend(classroom, *arguments) == 1
    printed = capsys.readouterr().err
    assert problem in printed
    assert printed.count("\n") == 1
    with gradebook(classroom) as book:
        assert not book.student_submissions("anna")


def test_the_gradebook_of_the_environment_is_used(
    classroom: Classroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (classroom.course / "autograder/gradebook.db").rename(tmp_path / "other.db")
    monkeypatch.setenv("COURSE_GRADEBOOK", f"sqlite:///{tmp_path}/other.db")
    assert extend(classroom, LESSON, "anna", "--days", "2") == 0
    with Gradebook(f"sqlite:///{tmp_path}/other.db") as book:
        assert book.find_submission(LESSON, "anna").extension == timedelta(days=2)
