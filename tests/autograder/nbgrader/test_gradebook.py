"""Missing or unusable gradebooks: commands report the problem, and don't create a gradebook."""

import logging
from collections.abc import Callable
from datetime import timedelta

import pytest
from nbgrader.api import Gradebook
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory

from autograder.judge.job import Cell, Job, Result
from autograder.marking import __main__ as mark
from autograder.nbgrader import regrade, stored_results
from autograder.nbgrader.course_folder import CourseFolder
from autograder.nbgrader.generate_assignment import CourseGenerateAssignment
from autograder.nbgrader.gradebook import gradebook_file, points_after_penalty
from autograder.nbgrader.score_snapshots import restore, snapshot_of
from autograder.sandbox.limits import Limits
from tests.autograder.nbgrader.classroom import Classroom, configuration
from tests.autograder.small_course import LESSON

Command = Callable[[list[str]], int]


def test_a_penalty_leaves_no_rounding_error_and_no_negative_points() -> None:
    assert points_after_penalty(1.0, 0.7) == 0.3
    assert points_after_penalty(1.0, None) == 1.0
    assert points_after_penalty(1.0, 1.1) == 0.0


@pytest.fixture(params=["regrade", "mark", "results prune"])
def command(request: pytest.FixtureRequest, classroom: Classroom) -> Command:
    """A command that needs the gradebook. There is a stored result for `course results prune`."""
    job = Job(LESSON, (Cell("only", "", False, False),), (), Limits())
    CourseFolder(classroom.course).execute.store.save(job, Result([[]]).to_json(), 1.0)
    commands: dict[str, Command] = {
        "regrade": lambda course: regrade.main([LESSON, *course]),
        "mark": lambda course: mark.main([LESSON, *course]),
        "results prune": lambda course: stored_results.main(["prune", *course]),
    }
    return commands[request.param]


@pytest.mark.slow
def test_a_missing_gradebook_is_reported_and_not_created(
    classroom: Classroom, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    gradebook = classroom.course / "autograder/gradebook.db"
    gradebook.unlink()
    assert command(["--course", str(classroom.course)]) == 1
    assert f"there is no gradebook yet at {gradebook}" in capsys.readouterr().err
    assert not gradebook.exists()


ADDRESSES = [
    ("nonsense", "the gradebook's address is not valid: Could not parse"),
    ("unknown://host/database", "the gradebook's address is not valid: Can't load plugin"),
    (
        "postgresql+psycopg://host:port/name",
        "the gradebook's address is not valid: invalid literal",
    ),
    ("mysql://host/database", "the gradebook's address is not valid: No module named"),
    ("postgresql+psycopg://grader@127.0.0.1:1/database", "the gradebook cannot be used: connection failed"),
]


@pytest.mark.parametrize(
    ("command", "address", "problem"),
    [
        *(("regrade", *address) for address in ADDRESSES),
        *((command, *ADDRESSES[0]) for command in ("mark", "results prune")),
    ],
    indirect=["command"],
)
def test_a_gradebook_that_cannot_be_opened_is_reported(
    classroom: Classroom, command: Command, address: str, problem: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("COURSE_GRADEBOOK", address)
    assert command(["--course", str(classroom.course)]) == 1
    printed = capsys.readouterr().err
    assert f"✗ {problem}" in printed
    assert "COURSE_GRADEBOOK" in printed


def test_the_recovery_of_an_interrupted_run_keeps_what_a_person_has_done(classroom: Classroom) -> None:
    student = ("explain_root", LESSON, LESSON)
    with Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db") as book:
        for name in ("anna", "bela"):
            book.add_student(name)
        book.add_submission(LESSON, "anna")
        before = [snapshot_of(book, LESSON, name) for name in ("anna", "bela")]
        book.add_submission(LESSON, "bela")
        grade = book.find_grade(*student, "anna")
        grade.manual_score, grade.needs_manual_grade = 2.0, False
        book.find_grade(*student, "bela").extra_credit = 1.0
        book.db.commit()
        for name, snapshot in zip(("anna", "bela"), before, strict=True):
            restore(book, LESSON, name, snapshot)
        assert not book.find_grade(*student, "anna").needs_manual_grade
        assert book.find_grade(*student, "bela").extra_credit == 1.0


@pytest.mark.parametrize("meanwhile", [False, True])
def test_an_extension_survives_a_first_grading_that_fails(classroom: Classroom, meanwhile: bool) -> None:
    with Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db") as book:
        book.add_student("anna")
        for lesson in (LESSON, "02-unreleased"):  # the entry for the second has no notebooks
            book.update_or_create_assignment(lesson)
            before = snapshot_of(book, lesson, "anna")
            book.update_or_create_submission(lesson, "anna")
            book.grant_extension(lesson, "anna", days=2)
            snapshot = before if meanwhile else snapshot_of(book, lesson, "anna")
            book.update_or_create_submission(lesson, "anna", timestamp="2025-02-01 12:00:00")
            restore(book, lesson, "anna", snapshot)
            kept = book.find_submission(lesson, "anna")
            assert (kept.extension, kept.timestamp) == (timedelta(days=2), None)


def test_a_file_that_is_no_database_is_reported(
    classroom: Classroom, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    (classroom.course / "autograder/gradebook.db").write_bytes(b"x" * 2000)
    assert command(["--course", str(classroom.course)]) == 1
    assert "✗ the gradebook cannot be used: file is not a database" in capsys.readouterr().err


def test_autograde_reports_a_missing_gradebook_and_creates_none(classroom: Classroom) -> None:
    gradebook = classroom.course / "autograder/gradebook.db"
    gradebook.unlink()
    classroom.hand_in("anna", classroom.released)
    said = classroom.autograde()
    assert said[0].startswith(f"there is no gradebook yet at {gradebook}. `nbgrader generate_assignment")
    assert len(said) == 2
    assert not gradebook.exists()


@pytest.mark.parametrize(("address", "problem"), [ADDRESSES[0], ADDRESSES[-1]])
def test_autograde_and_generate_assignment_report_a_gradebook_that_cannot_be_opened(
    classroom: Classroom, address: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COURSE_GRADEBOOK", address)
    classroom.hand_in("anna", classroom.released)
    assert classroom.autograde()[0].startswith(problem)
    config = configuration(classroom.course)
    converter = CourseGenerateAssignment(
        coursedir=CourseDirectory(config=config, assignment_id=LESSON), config=config
    )
    converter.log = logging.getLogger("generate_assignment")
    with pytest.raises(NbGraderException, match=problem):
        converter.start()


def test_the_file_of_a_gradebook_is_known_only_for_sqlite() -> None:
    assert str(gradebook_file("sqlite:////folder/gradebook.db")) == "/folder/gradebook.db"
    assert gradebook_file("sqlite:///:memory:") is gradebook_file("postgresql+psycopg://host/name") is None
