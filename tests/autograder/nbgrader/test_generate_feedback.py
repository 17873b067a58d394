"""Feedback pages: workers render the same ones as a single process, and stale pages are written again."""

import logging
import os
import shutil

import pytest
from nbgrader.api import Gradebook
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory

from autograder.nbgrader import generate_feedback
from autograder.nbgrader.generate_feedback import CourseGenerateFeedback
from autograder.nbgrader.grading_folder import course_lock
from tests.autograder.nbgrader.classroom import Classroom, configuration, solved
from tests.autograder.small_course import LESSON, cell_of

pytestmark = pytest.mark.slow

STUDENTS = ("anna", "bela", "carl", "dora [2]")


@pytest.fixture
def graded(classroom: Classroom) -> Classroom:
    """A graded class whose submissions differ."""
    for student in STUDENTS:
        notebook = solved(classroom.released)
        cell_of(notebook, "attention_scores").source += f"  # {student}"
        classroom.hand_in(student, notebook, at="2025-01-30 12:00:00 UTC")
    assert classroom.autograde() == []
    return classroom


def write_pages(classroom: Classroom, **options: object) -> None:
    config = configuration(classroom.course)
    config.SandboxedExecute.workers = 2
    course = CourseDirectory(config=config, assignment_id=LESSON)
    converter = CourseGenerateFeedback(coursedir=course, config=config)
    for name, value in options.items():
        setattr(converter if converter.has_trait(name) else course, name, value)
    converter.start()


def pages(classroom: Classroom) -> dict[str, bytes]:
    """Return the contents of all feedback files, by path."""
    folder = classroom.course / "autograder/feedback"
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def written_again(classroom: Classroom) -> set[str]:
    """Write the pages that are due, and return the students whose pages were replaced."""

    def inodes() -> dict[str, int]:
        return {
            student: (classroom.folder(student, "feedback") / f"{LESSON}.html").stat().st_ino
            for student in STUDENTS
        }

    # Keep the old pages, because a new page could otherwise reuse the inode of an old one.
    kept = classroom.course.parent / "kept"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(classroom.course / "autograder/feedback", kept, copy_function=os.link)
    before = inodes()
    write_pages(classroom)
    after = inodes()
    return {student for student in STUDENTS if before[student] != after[student]}


def test_workers_write_the_same_pages_and_name_what_fails(
    graded: Classroom, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_pages(graded)
    one_by_one = pages(graded)
    assert len([name for name in one_by_one if name.endswith(".html")]) == len(STUDENTS)
    monkeypatch.setattr(generate_feedback, "_PER_WORKER", 2)
    (graded.folder("bela", "autograded") / f"{LESSON}.ipynb").unlink()
    (graded.folder("bela", "autograded") / f"{LESSON}.ipynb").write_text("not a notebook")
    for student in ("anna", "carl"):
        (graded.folder(student, "feedback") / f"{LESSON}.html").unlink()
    with pytest.raises(NbGraderException) as told:
        write_pages(graded, force=True)
    assert str(told.value).startswith(f"bela, {LESSON}: the feedback was not written: ")
    assert pages(graded) == one_by_one


def test_a_page_is_written_again_if_it_would_look_different(graded: Classroom) -> None:
    write_pages(graded)
    assert written_again(graded) == set()
    with Gradebook(f"sqlite:///{graded.course}/autograder/gradebook.db") as gradebook:
        gradebook.find_grade("explain_root", LESSON, LESSON, "bela").manual_score = 2
        gradebook.db.commit()
    assert written_again(graded) == {"bela"}
    # The clocks of two machines disagree, so the later submission has an earlier timestamp.
    later = solved(graded.released)
    cell_of(later, "attention_scores").source = "def attention_scores(query, key):\n    return 0"
    graded.hand_in("carl", later, at="2025-01-01 12:00:00 UTC")
    assert graded.autograde() == []
    assert written_again(graded) == {"carl"}
    assert b"return" in pages(graded)[f"carl/{LESSON}/{LESSON}.html"]
    assert pages(graded)[f"carl/{LESSON}/timestamp.txt"] == b"2025-01-01 12:00:00 UTC"


def test_students_and_files_with_unusual_names(classroom: Classroom) -> None:
    students = (
        "josé o'neil & sohn",
        "ü" * 100,
        "Wolfeschlegelstein" * 11 + "xy",
    )  # the last has 200 characters
    for student in students:
        classroom.hand_in(student, solved(classroom.released))
        classroom.hand_in(student, b"text", f"größe {'ä' * 100} + 1.txt")
    assert classroom.autograde() == []
    write_pages(classroom)
    for student in students:
        scores = classroom.scores(student)
        assert scores is not None
        assert scores["check_attention_scores"] is not None
        assert f"{student}/{LESSON}/{LESSON}.html" in pages(classroom)
        assert f"{student}/{LESSON}/größe {'ä' * 100} + 1.txt" in pages(classroom)


def test_the_page_of_an_excluded_student_stays(graded: Classroom) -> None:
    write_pages(graded)
    before = pages(graded)
    write_pages(graded, force=True, notebook_id=LESSON, student_id_exclude="anna")
    assert pages(graded) == before


def test_while_a_run_grades_no_page_is_written(graded: Classroom) -> None:
    with (
        course_lock(graded.course / "autograder", logging.getLogger()),
        pytest.raises(NbGraderException, match="another nbgrader command is working in"),
    ):
        write_pages(graded)
    assert not (graded.course / "autograder/feedback").exists()


@pytest.mark.parametrize(
    ("cell", "piece"), [("explain_root", "["), ("explain_root", "\\begin{a} "), ("attention_scores", "[")]
)
def test_the_page_of_a_huge_answer_takes_no_longer_than_others(
    classroom: Classroom, cell: str, piece: str
) -> None:
    """Guard against rendering in quadratic time (hours) and highlighting huge code cells (a minute)."""
    notebook = solved(classroom.released)
    cell_of(notebook, cell).source = piece * (2_000_000 // len(piece))
    classroom.hand_in("anna", notebook)
    assert classroom.autograde() == []
    write_pages(classroom)
    assert piece * 100_000 in pages(classroom)[f"anna/{LESSON}/{LESSON}.html"].decode()
