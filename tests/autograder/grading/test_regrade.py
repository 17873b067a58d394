"""A lesson corrected during the term: changes are shown before they are written, and nobody is accused."""

import json
import shutil
from pathlib import Path

import pytest
from classroom import Classroom, configuration, solved
from nbgrader.api import Gradebook
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from small_course import LESSON, SmallCourse, cell_of

from autograder.nbgrader.converters import CourseGenerateAssignment
from autograder.nbgrader.regrade import main
from autograder.sandbox.confinement import probe

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(not probe().sufficient, reason="nothing here can confine code"),
]

RIGHT = "def attention_scores(query, key):\n    return query @ key.mT / query.shape[-1] ** 0.5"
UNSCALED = "def attention_scores(query, key):\n    return query @ key.mT"


def release(course: Path) -> None:
    config = configuration(course)
    directory = CourseDirectory(config=config, assignment_id=LESSON)
    CourseGenerateAssignment(coursedir=directory, config=config).start()


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Classroom:
    """A class of two: `anna` is correct, `bela` forgot the root. A person has graded their explanations."""
    course = SmallCourse.make(tmp_path_factory.mktemp("corrected") / "course")
    config = configuration(course.root)
    GenerateAssignment(coursedir=CourseDirectory(config=config, assignment_id=LESSON), config=config).start()
    classroom = Classroom(course.root)
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
    assert [[cell.strip() for cell in row[:5]] for row in rows] == [
        ["anna", "check_attention_scores", "4", "6", "6"],
        ["bela", "check_attention_scores", "1.5", "3.5", "6"],
    ]
    assert "Nothing was written." in shown
    assert classroom.state() == before

    assert main([LESSON, "--write", "--notes", *course]) == 0
    after = classroom.state()["gradings"]
    assert [grade[1:] for grade in after["anna"]["grades"]] == [
        ("6.0", "None", False),
        ("1.0", "None", False),
        ("None", "2.0", False),  # manual points stay, and need no second look
    ]
    trail = [
        json.loads(line) for line in (classroom.course / "autograder/regrades.jsonl").read_text().splitlines()
    ]
    assert [(entry["student"], entry["before"], entry["after"]) for entry in trail] == [
        ("anna", 4.0, 6.0),
        ("bela", 1.5, 3.5),
    ]
    note = (classroom.course / f"autograder/regrade_notes/{LESSON}/bela.md").read_text()
    assert "attention_scores: 1.5 before, 3.5 of 6 points now" in note

    # A student who still has the old release is graded by the new points, told, and not accused.
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
    assert any("earlier release" in note for note in grading.repairs)


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
    assert "99-unknown has not been released. Check the name" in " ".join(capsys.readouterr().err.split())
