"""A lesson is corrected during the term: changes are previewed, and no student is accused of tampering."""

import json
import logging
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from nbgrader.api import Gradebook, MissingEntry

from autograder.nbgrader import preparation
from autograder.nbgrader.autograde import CourseAutograde
from autograder.nbgrader.course_folder import CourseFolder
from autograder.nbgrader.preparation import Preparation
from autograder.nbgrader.regrade import Change, Regrading, main
from autograder.results.results import Results
from autograder.sandbox.confinement import probe
from tests.autograder.nbgrader.classroom import RIGHT, UNSCALED, Classroom, release, solved
from tests.autograder.small_course import LESSON, SmallCourse, cell_of

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.usefixtures("kept_workers"),
    pytest.mark.skipif(not probe().sufficient, reason="nothing here can confine code"),
]


@pytest.fixture(scope="module")
def graded(released_course: Path, tmp_path_factory: pytest.TempPathFactory) -> Classroom:
    """A graded class of two: `anna`'s code is correct, `bela`'s lacks the root. Both have manual points."""
    classroom = Classroom(shutil.copytree(released_course, tmp_path_factory.mktemp("corrected") / "course"))
    for student, source in (("anna", RIGHT), ("bela", UNSCALED)):
        notebook = solved(classroom.released)
        cell_of(notebook, "attention_scores").source = source
        classroom.hand_in(student, notebook, at="2025-01-30 12:00:00 UTC")
    assert classroom.autograde() == []
    with gradebook(classroom) as book:
        for student in ("anna", "bela"):
            grade = book.find_grade("explain_root", LESSON, LESSON, student)
            grade.manual_score, grade.needs_manual_grade = 2, False
        book.db.commit()
    return classroom


@pytest.fixture
def classroom(graded: Classroom, tmp_path: Path) -> Classroom:
    shutil.copytree(graded.course, tmp_path / "course")
    return Classroom(tmp_path / "course")


def gradebook(classroom: Classroom) -> Gradebook:
    return Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db")


def test_more_points_for_an_exercise(classroom: Classroom, capsys: pytest.CaptureFixture[str]) -> None:
    before, old_release = classroom.state(), classroom.released
    course = ["--course", str(classroom.course)]
    assert main([LESSON, *course]) == 0
    assert "2 submissions compared, 0 grades differ." in capsys.readouterr().out

    SmallCourse(classroom.course).change_manifest("points = 4", "points = 6")
    release(classroom.course)
    assert main([LESSON, *course]) == 0
    shown = capsys.readouterr().out
    rows = [line.split("│")[1:-1] for line in shown.splitlines() if "check_attention_scores" in line]
    assert [[cell.strip() for cell in row[:4]] for row in rows] == [
        ["anna", "check_attention_scores", "4 of 4", "6 of 6"],
        ["bela", "check_attention_scores", "1.5 of 4", "3.5 of 6"],
    ]
    assert "Nothing was written." in shown
    assert classroom.state() == before

    assert main([LESSON, "--write", "--notes", *course]) == 0
    after = classroom.state()["gradings"]
    assert [grade[1:] for grade in after["anna"]["grades"]] == [
        ("6.0", "None", False),
        ("1.0", "None", False),
        ("None", "2.0", False),  # manual points stay, and needn't be reviewed again
    ]
    trail = [
        json.loads(line) for line in (classroom.course / "autograder/regrades.jsonl").read_text().splitlines()
    ]
    assert [(entry["state"], entry["student"], entry["before"], entry["after"]) for entry in trail] == [
        (state, *change)
        for state in ("planned", "written")
        for change in (("anna", 4, 6), ("bela", 1.5, 3.5))
    ]
    [note] = notes(classroom, "bela")
    assert "attention_scores: 1.5 of 4 points before, 3.5 of 6 points now" in note.read_text()

    # A student who still has the old release gets the new points and a note, but no accusation.
    cell_of(old_release, "attention_scores").source = RIGHT
    classroom.hand_in("carl", old_release)
    assert classroom.autograde() == []
    assert classroom.scores("carl") == {
        "check_predict_spread": 0,
        "check_attention_scores": 6,
        "explain_root": 0,
    }
    grading = classroom.autograded("carl").metadata.course_grading
    assert grading.tampering == []
    [note] = grading.repairs
    assert note.startswith("The lesson was updated after you fetched it. Your answers were graded with")


def test_tampering_with_an_old_release_is_still_noticed(classroom: Classroom) -> None:
    old_release = classroom.released
    SmallCourse(classroom.course).change_manifest("points = 4", "points = 6")
    release(classroom.course)
    cell_of(old_release, "check_attention_scores").source = "pass"
    classroom.hand_in("carl", old_release)
    classroom.autograde()
    assert classroom.autograded("carl").metadata.course_grading.tampering


def test_a_correction_that_was_not_released_is_refused(
    classroom: Classroom, capsys: pytest.CaptureFixture[str]
) -> None:
    before = classroom.state()
    SmallCourse(classroom.course).change_manifest("not_scaled = 2.5", "not_scaled = 1.0")
    assert main([LESSON, "--write", "--course", str(classroom.course)]) == 1
    printed = capsys.readouterr().err
    assert "check_attention_scores changed since 01-scores was released" in " ".join(printed.split())
    assert classroom.state() == before


def test_a_lesson_that_was_never_released_is_refused(
    classroom: Classroom, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["99-unknown", "--course", str(classroom.course)]) == 1
    assert "99-unknown has not been generated. Check the name" in " ".join(capsys.readouterr().err.split())


def more_points(classroom: Classroom) -> None:
    """Correct the lesson: the exercise earns 6 points instead of 4, so that both students earn 2 more."""
    SmallCourse(classroom.course).change_manifest("points = 4", "points = 6")
    release(classroom.course)


def hand_in_again(classroom: Classroom) -> None:
    """Collect a new submission by `bela`, with different code and a different explanation."""
    notebook = solved(classroom.released)
    cell_of(notebook, "attention_scores").source = RIGHT
    cell_of(notebook, "explain_root").source = "I have no idea."
    classroom.hand_in("bela", notebook, at="2025-02-20 12:00:00 UTC")


def regrading(classroom: Classroom) -> Regrading:
    return Regrading(CourseFolder(classroom.course), LESSON, logging.getLogger("regrade"))


def notes(classroom: Classroom, student: str = "*") -> list[Path]:
    """Return the paths of the notes that were written, of all students or only one, oldest first."""
    return sorted((classroom.course / "autograder/regrade_notes" / LESSON).glob(f"*/{student}.md"))


def trail(classroom: Classroom) -> list[str]:
    """Return the students whose changes were written, from the audit trail."""
    lines = map(json.loads, (classroom.course / "autograder/regrades.jsonl").read_text().splitlines())
    return [line["student"] for line in lines if line["state"] == "written"]


def test_a_resubmission_is_not_a_correction(classroom: Classroom, capsys: pytest.CaptureFixture[str]) -> None:
    more_points(classroom)
    hand_in_again(classroom)
    before, course = classroom.state()["gradings"]["bela"], ["--course", str(classroom.course)]
    assert main([LESSON, "--write", "--notes", *course]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 submission compared, 1 grade differs." in shown
    assert "1 grade written, and recorded in" in shown
    assert "1 note written to" in shown
    assert (
        f"bela: not corrected: it has changed since it was graded. Run `nbgrader autograde {LESSON}` first."
    ) in shown
    assert classroom.state()["gradings"]["bela"] == before
    assert trail(classroom) == ["anna"]
    assert [path.name for path in notes(classroom)] == ["anna.md"]


def test_a_submission_that_is_collected_after_the_comparison_keeps_its_grade(classroom: Classroom) -> None:
    more_points(classroom)
    again = regrading(classroom)
    changes = again.changes()
    assert {change.student for change in changes} == {"anna", "bela"}
    hand_in_again(classroom)
    before = classroom.state()["gradings"]["bela"]
    assert [change.student for change in again.write(changes)] == trail(classroom) == ["anna"]
    assert list(again.failed) == ["bela"]
    assert classroom.state()["gradings"]["bela"] == before


def test_a_submission_that_is_collected_while_grades_are_written_needs_manual_grading(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    more_points(classroom)
    again = regrading(classroom)
    changes = again.changes()
    grade = CourseAutograde.grade

    def hand_in_meanwhile(self: Any, prepared: Any, *arguments: Any) -> None:
        grade(self, prepared, *arguments)
        if prepared.submission.student == "bela":
            hand_in_again(classroom)

    monkeypatch.setattr(CourseAutograde, "grade", hand_in_meanwhile)
    assert [change.student for change in again.write(changes)] == trail(classroom) == ["anna"]
    after = classroom.state()["gradings"]
    assert ("None", "2.0", False) in [grade[1:] for grade in after["anna"]["grades"]]
    assert ("None", "2.0", True) in [grade[1:] for grade in after["bela"]["grades"]]


def test_an_interrupted_regrade_writes_the_notes_of_those_who_were_graded_again(
    classroom: Classroom, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    SmallCourse(classroom.course).change_manifest("points = 4", "points = 6")
    release(classroom.course)
    init_assignment = CourseAutograde.init_assignment

    def interrupted(self: CourseAutograde, lesson: str, student: str) -> None:
        if student == "bela":
            raise KeyboardInterrupt
        init_assignment(self, lesson, student)

    command = [LESSON, "--write", "--notes", "--course", str(classroom.course)]
    with monkeypatch.context() as patch:
        patch.setattr(CourseAutograde, "init_assignment", interrupted)
        assert main(command) == 1
    assert "bela: not corrected: the command was interrupted. Run it again" in capsys.readouterr().out
    assert [path.name for path in notes(classroom)] == ["anna.md"]
    gradings = classroom.state()["gradings"]
    assert {student: grading["grades"][0][1] for student, grading in gradings.items()} == {
        "anna": "6.0",
        "bela": "1.5",
    }
    assert main(command) == 0
    assert sorted(path.name for path in notes(classroom)) == ["anna.md", "bela.md"]


def test_notes_of_an_earlier_correction_are_kept(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([datetime(2025, 3, 1, tzinfo=UTC), datetime(2025, 3, 2, tzinfo=UTC)])
    monkeypatch.setattr("autograder.nbgrader.regrade.datetime", Mock(now=lambda _: next(times)))
    again = regrading(classroom)
    first = Change("anna", LESSON, "check_attention_scores", 4, 6, None, 4, 6)
    again.write_notes([first])
    again.write_notes([replace(first, before=6, after=5, max_before=6)])
    earlier, later = [note.read_text() for note in notes(classroom, "anna")]
    assert "4 of 4 points before, 6 of 6 points now\n\nOn 1 March 2025, a check or its points" in earlier
    assert "6 of 6 points before, 5 of 6 points now\n\nOn 2 March 2025, a check or its points" in later


def test_one_failure_keeps_no_others_note_back(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    more_points(classroom)
    grade = CourseAutograde.grade

    def fail_for_bela(self: Any, prepared: Any, *arguments: Any) -> None:
        if prepared.submission.student == "bela":
            raise OSError("the disk is full")
        grade(self, prepared, *arguments)

    monkeypatch.setattr(CourseAutograde, "grade", fail_for_bela)
    assert main([LESSON, "--write", "--notes", "--course", str(classroom.course)]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "bela: not corrected: 1 of 2 submissions could not be graded" in shown
    assert trail(classroom) == ["anna"]
    assert [path.name for path in notes(classroom)] == ["anna.md"]


def test_a_submission_that_cannot_be_compared_completely_is_not_changed(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    more_points(classroom)
    find = Gradebook.find_grade

    def fail_for_bela(self: Gradebook, cell: str, notebook: str, lesson: str, student: str) -> Any:
        if (cell, student) == ("explain_root", "bela"):
            raise MissingEntry("there is no such grade")
        return find(self, cell, notebook, lesson, student)

    monkeypatch.setattr(Gradebook, "find_grade", fail_for_bela)
    again = regrading(classroom)
    assert [change.student for change in again.changes()] == ["anna"]
    assert again.failed == {"bela": "there is no such grade"}


def test_only_a_few_submissions_are_in_memory_at_a_time(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    prepare, get = Preparation.prepare, Results.get

    def record_prepare(self: Any, submission: Any, results: Any) -> Any:
        steps.append(f"prepare {submission.student}")
        return prepare(self, submission, results)

    def record_get(self: Any, *job: Any) -> Any:
        steps.append("get")
        return get(self, *job)

    monkeypatch.setattr(Preparation, "prepare", record_prepare)
    monkeypatch.setattr(Results, "get", record_get)
    monkeypatch.setattr(preparation, "AHEAD", 0)
    assert regrading(classroom).changes() == []
    assert steps == ["prepare anna", "get", "prepare bela", "get"]
