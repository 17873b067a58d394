"""Submissions of all kinds: each is graded or reported by name, and none affects another."""

import json
import os
import shutil
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory

from autograder.nbgrader.preparation import Preparation
from autograder.nbgrader.replacement import FolderReplacement
from autograder.nbgrader.sandboxed_execute import SandboxedExecute
from autograder.sandbox.archive import neighbor_files
from autograder.submissions.folder import Submission, refuse_bad_timestamp
from autograder.submissions.reading import UnreadableError
from autograder.submissions.regular_file import read_file
from tests.autograder.nbgrader.classroom import Classroom, configuration, solved
from tests.autograder.small_course import LESSON, cell_of

pytestmark = pytest.mark.sandbox

NAME = f"{LESSON}.ipynb"


@pytest.fixture
def right(classroom: Classroom) -> NotebookNode:
    """A correct lesson, which `anna` hands in."""
    notebook = solved(classroom.released)
    classroom.hand_in("anna", notebook)
    return notebook


def graded(classroom: Classroom, student: str) -> bool:
    """Return whether a student has the scores of the correct lesson, which `anna` has handed in."""
    scores = classroom.scores(student)
    return (
        scores is not None
        and scores == classroom.scores("anna")
        and scores["check_attention_scores"] is not None
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"<html>", "web page"),
        (b'{"cells": [', "cut off"),
        (b'{"cells": [], "metadata": {}}', "none of the answer cells"),
    ],
)
def test_what_cannot_be_read_is_reported_by_name(
    classroom: Classroom, right: NotebookNode, content: bytes, reason: str
) -> None:
    classroom.hand_in("bela", content)
    classroom.hand_in("carl", right)
    said = classroom.autograde()
    assert [line for line in said if line.startswith("bela, 01-scores: not graded: ") and reason in line]
    assert said[-1].startswith("nbgrader ends with an error")
    assert list(classroom.not_graded) == ["bela"]
    assert reason in classroom.not_graded["bela"]
    assert classroom.scores("bela") is None
    assert not classroom.folder("bela", "autograded").exists()
    assert graded(classroom, "anna")
    assert graded(classroom, "carl")


def test_a_submission_that_was_handed_in_again_is_taken_off_the_list(
    classroom: Classroom, right: NotebookNode
) -> None:
    classroom.hand_in("bela", b"")
    classroom.hand_in("carl", b"")
    classroom.autograde()
    classroom.hand_in("bela", right)
    (classroom.folder("carl") / NAME).unlink()
    classroom.folder("carl").rmdir()
    classroom.autograde()
    assert classroom.not_graded == {}
    assert graded(classroom, "bela")


def test_the_grade_of_an_earlier_submission_stays_if_a_later_one_cannot_be_read(
    classroom: Classroom, right: NotebookNode
) -> None:
    classroom.hand_in("bela", right, at="2025-01-01 12:00:00 UTC")
    classroom.autograde()
    with Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db") as gradebook:
        gradebook.find_grade("explain_root", LESSON, LESSON, "bela").manual_score = 2
        gradebook.db.commit()
    before = classroom.state()
    classroom.hand_in("bela", b"{", at="2025-01-02 12:00:00 UTC")
    for _ in range(2):
        assert "1 of 2 submissions could not be graded" in classroom.autograde()[-1]
        assert "cut off" in classroom.not_graded["bela"]
        after = classroom.state()
        assert after["gradings"] == before["gradings"]
        assert after["files"] == before["files"]


@pytest.mark.parametrize("name", ["01-scores (1).ipynb", "Kopie von 01-scores.ipynb", f"{LESSON}/{NAME}"])
def test_the_only_notebook_counts_whatever_its_name(
    classroom: Classroom, right: NotebookNode, name: str
) -> None:
    classroom.hand_in("bela", right, name)
    assert not [line for line in classroom.autograde() if "No submitted file" in line]
    assert graded(classroom, "bela")
    assert classroom.told("bela") == [f"it was handed in as {name}, not {NAME}"]


def test_a_notebook_of_another_name_that_fails_gets_no_zero(
    classroom: Classroom, right: NotebookNode
) -> None:
    classroom.hand_in("bela", b"", "copy.ipynb")
    classroom.autograde()
    assert classroom.scores("bela") is None
    assert "empty" in classroom.not_graded["bela"]


def test_where_it_cannot_be_told_which_notebook_counts_nobody_guesses(
    classroom: Classroom, right: NotebookNode
) -> None:
    classroom.hand_in("bela", right, "a.ipynb")
    classroom.hand_in("bela", classroom.released, "b.ipynb")
    classroom.hand_in("carl", b"notes", "notes.txt")
    classroom.autograde()
    assert "notebooks found instead: a.ipynb, b.ipynb" in classroom.not_graded["bela"]
    assert "no notebook in it" in classroom.not_graded["carl"]
    assert classroom.scores("bela") is classroom.scores("carl") is None
    assert graded(classroom, "anna")


def test_another_notebook_beside_the_graded_one_is_noted(classroom: Classroom, right: NotebookNode) -> None:
    classroom.hand_in("bela", classroom.released)
    classroom.hand_in("bela", right, "01-scores (1).ipynb")
    classroom.autograde()
    assert classroom.told("bela") == ["there are other notebooks besides the graded one: 01-scores (1).ipynb"]


def test_links_are_not_followed(classroom: Classroom, right: NotebookNode) -> None:
    secret = classroom.course / "autograder/gradebook.db"
    folder = classroom.hand_in("bela", right)
    (folder / "book.db").symlink_to(secret)
    (folder / "inner").symlink_to(classroom.course / "solutions")
    (folder / "[a-z]*").symlink_to(secret)
    os.mkfifo(folder / "pipe")
    (folder / "data.csv").write_text("kept")
    classroom.autograde()
    assert graded(classroom, "bela")
    copied = {path.name for path in classroom.folder("bela", "autograded").rglob("*")}
    assert copied == {NAME, "data", "words.txt", "data.csv"}
    assert len(classroom.told("bela")) == 4
    assert [note for note in classroom.told("bela") if "book.db is a symbolic link" in note]


def test_a_new_notebook_among_too_many_links_is_graded(classroom: Classroom, right: NotebookNode) -> None:
    """Simulate a folder such as node_modules/.bin, which contains hundreds of links."""
    folder = classroom.hand_in("bela", classroom.released)
    for number in range(101):
        (folder / f"link-{number}").symlink_to("/etc/hostname")
    classroom.autograde()
    assert not graded(classroom, "bela")
    assert "too many of its files could not be copied, so none was copied" in classroom.told("bela")
    classroom.hand_in("bela", right)
    classroom.autograde()
    assert graded(classroom, "bela")


def test_a_file_that_becomes_a_link_after_a_look_at_it_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "bela"
    outside.mkdir()
    (outside / "solution.py").write_text("secret")
    folder.mkdir()
    (folder / "data.csv").write_text("kept")
    (folder / "solution.py").symlink_to(outside / "solution.py")
    (folder / "inner").mkdir()
    (folder / "inner/solution.py").touch()
    listed = sorted(folder.rglob("*"))
    shutil.rmtree(folder / "inner")
    (folder / "inner").symlink_to(outside)
    monkeypatch.setattr(Path, "rglob", lambda *_: listed)
    monkeypatch.setattr(Path, "is_symlink", lambda _: False)
    assert neighbor_files(folder) == {"data.csv": b"kept"}
    (tmp_path / "link").symlink_to(folder)
    for where, path in ((folder, "inner/solution.py"), (tmp_path / "link", "data.csv")):
        with pytest.raises(UnreadableError, match="is a symbolic link"):
            read_file(where, path)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_notebook_that_is_no_plain_file_is_not_opened(
    classroom: Classroom, right: NotebookNode, kind: str
) -> None:
    folder = classroom.folder("bela")
    folder.mkdir(parents=True)
    match kind:
        case "link":
            (folder / NAME).symlink_to(classroom.folder("anna") / NAME)
        case "folder":
            (folder / NAME).mkdir()
        case "pipe":
            os.mkfifo(folder / NAME)
    classroom.autograde()
    assert {"link": "link", "folder": "folder", "pipe": "not a regular file"}[kind] in classroom.not_graded[
        "bela"
    ]
    assert classroom.scores("bela") is None
    assert graded(classroom, "anna")


@pytest.mark.parametrize("of", ["student", "lesson"])
def test_a_folder_that_is_a_link_is_not_entered(classroom: Classroom, right: NotebookNode, of: str) -> None:
    (classroom.folder("anna") / "diary.txt").write_text("secret")
    folder = classroom.folder("bela")
    if of == "lesson":
        folder.parent.mkdir(parents=True)
        folder.symlink_to(classroom.folder("anna"))
    else:
        folder.parent.symlink_to(classroom.folder("anna").parent)
    classroom.autograde()
    assert "link" in classroom.not_graded["bela"]
    assert not list((classroom.course / "autograder/autograded").glob("bela/**/diary.txt"))
    assert classroom.scores("bela") is None
    assert graded(classroom, "anna")


def test_a_submission_that_is_a_file_is_reported(classroom: Classroom, right: NotebookNode) -> None:
    classroom.folder("bela").parent.mkdir(parents=True)
    classroom.folder("bela").write_text("here it is")
    classroom.autograde()
    assert "is not a folder" in classroom.not_graded["bela"]
    assert graded(classroom, "anna")


def test_what_is_in_the_way_of_the_lessons_files_is_not_copied(
    classroom: Classroom, right: NotebookNode
) -> None:
    (classroom.hand_in("bela", right) / "data").write_text("a file where a folder is needed")
    (classroom.hand_in("carl", right) / "data/words.txt/inner").mkdir(parents=True)
    (classroom.folder("carl") / "data/words.txt/inner/x").write_text("a folder where a file is needed")
    classroom.autograde()
    for student in ("bela", "carl"):
        assert graded(classroom, student)
        assert (classroom.folder(student, "autograded") / "data/words.txt").read_text() == "ein Hund\n"
        assert "has the name of a file of the lesson" in classroom.told(student)[0]


def test_large_files_are_not_copied(classroom: Classroom, right: NotebookNode) -> None:
    with (classroom.hand_in("bela", right) / "model.pt").open("wb") as file:
        file.truncate(200_000_000)
    classroom.autograde()
    assert graded(classroom, "bela")
    assert classroom.told("bela") == ["model.pt is larger than 100 MB; it was not copied"]
    assert not (classroom.folder("bela", "autograded") / "model.pt").exists()


def test_many_files_among_many_links_are_told_apart_quickly(tmp_path: Path) -> None:
    for number in range(60_000):
        (tmp_path / f"link-{number}").symlink_to("nowhere")
    for number in range(4_000):
        (tmp_path / f"file-{number}").touch()
    submission = Submission("anna", LESSON, str(tmp_path), (LESSON,))
    submission.inspect([], 1_000)
    start = time.monotonic()
    submission.digest()
    assert time.monotonic() - start < 4


@pytest.mark.parametrize("kind", ["nonsense", "link", "pipe", "folder", "long", "binary", "number"])
def test_a_bad_timestamp_is_reported(classroom: Classroom, right: NotebookNode, kind: str) -> None:
    path = classroom.hand_in("bela", right) / "timestamp.txt"
    match kind:
        case "nonsense":
            path.write_text("yesterday, I think")
        case "link":
            path.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "long":
            path.write_text("2025-01-01" + " " * 2000)
        case "binary":
            path.write_bytes(b"\xff\xfe\x00")
        case "number":  # a huge number of hours makes the parser raise a different error
            path.write_text("1" * 40 + "h")
    said = classroom.autograde()
    told = [line for line in said if line.startswith("bela, 01-scores: not graded: ")]
    assert any("its timestamp.txt" in line for line in told)
    assert "timestamp.txt" in classroom.not_graded["bela"]
    assert classroom.scores("bela") is None
    assert graded(classroom, "anna")


def test_a_bad_timestamp_changes_no_grade_and_is_forgotten_once_it_is_corrected(
    classroom: Classroom, right: NotebookNode
) -> None:
    timestamp = classroom.hand_in("bela", right, at="2025-01-01") / "timestamp.txt"
    classroom.autograde()
    timestamp.write_text("yesterday, I think")
    classroom.autograde()
    assert graded(classroom, "bela")
    assert list(classroom.not_graded) == ["bela"]
    timestamp.write_text("2025-01-01")
    assert classroom.autograde() == []
    assert graded(classroom, "bela")
    assert classroom.not_graded == {}


def test_folders_in_folders_without_end_stop_nobody_else(classroom: Classroom, right: NotebookNode) -> None:
    # Create the folders one level at a time, because a path to the innermost one would be too long.
    where = os.open(classroom.hand_in("bela", right), os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("a", dir_fd=where)
        inner = os.open("a", os.O_RDONLY, dir_fd=where)
        os.close(where)
        where = inner
    os.close(where)
    classroom.autograde()
    assert classroom.not_graded == {"bela": "its folders are nested more than 50 deep"}
    assert graded(classroom, "anna")
    subprocess.run(["rm", "-r", classroom.folder("bela")], check=True)  # pytest's own clean-up would fail


@pytest.mark.parametrize("content", ["{", "[]", '{"01-scores": ["bela"]}', '{"01-scores": {"bela": 3}}'])
def test_a_damaged_list_is_started_again(classroom: Classroom, right: NotebookNode, content: str) -> None:
    (classroom.course / "autograder" / "not_graded.json").write_text(content)
    assert classroom.autograde() == []
    assert classroom.not_graded == {}
    assert graded(classroom, "anna")


def test_a_list_that_cannot_be_read_stops_nothing(classroom: Classroom, right: NotebookNode) -> None:
    unreadable = classroom.course / "autograder" / "not_graded.json"
    unreadable.mkdir()
    classroom.hand_in("bela", b"")
    logged = classroom.autograde()
    assert f"{unreadable} cannot be updated: [Errno 21] Is a directory: '{unreadable}'" in logged
    assert "1 of 2 submissions could not be graded" in logged[-1]
    assert graded(classroom, "anna")


def test_whatever_a_submission_raises_the_others_are_graded(
    classroom: Classroom, right: NotebookNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    classroom.hand_in("bela", right)
    classroom.hand_in("carl", right)
    inspect, read = Submission.inspect, Preparation._read

    def inspect_it(self: Submission, *arguments: Any) -> None:
        if self.student == "bela":
            raise ArithmeticError("what nobody has thought of")
        inspect(self, *arguments)

    def read_it(self: Preparation, submission: Submission, name: str, digest: str) -> Any:
        if submission.student == "carl":
            raise ArithmeticError("what nobody has thought of")
        return read(self, submission, name, digest)

    monkeypatch.setattr(Submission, "inspect", inspect_it)
    monkeypatch.setattr(Preparation, "_read", read_it)
    classroom.autograde()
    reason = "ArithmeticError: what nobody has thought of"
    assert classroom.not_graded == {"bela": reason, "carl": reason}
    assert classroom.scores("carl") is None
    assert graded(classroom, "anna")


def test_with_too_many_links_no_file_is_copied_or_given_to_a_kernel(
    classroom: Classroom, right: NotebookNode
) -> None:
    folder = classroom.hand_in("bela", right)
    (folder / "data.csv").write_text("left out")
    for number in range(500):
        (folder / f"link{number}").symlink_to("/etc/hostname")
    classroom.autograde()
    assert graded(classroom, "bela")
    copied = {path.name for path in classroom.folder("bela", "autograded").rglob("*")}
    assert copied == {NAME, "data", "words.txt"}
    assert len(classroom.told("bela")) == 11
    assert "too many of its files could not be copied, so none was copied" in classroom.told("bela")
    course = CourseDirectory(config=configuration(classroom.course), assignment_id=LESSON)
    submission = Submission("bela", LESSON, str(folder), (LESSON,))
    preparation = Preparation(course, SandboxedExecute())
    preparation.inspect(submission)
    assert set(preparation._files(submission)) == {"data/words.txt"}


def test_a_file_that_students_edit_is_judged_as_they_handed_it_in(
    classroom: Classroom, right: NotebookNode
) -> None:
    classroom.hand_in("anna", b"ein Kind", "data/words.txt")
    execute = SandboxedExecute(config=configuration(classroom.course))
    course = CourseDirectory(config=execute.config, assignment_id=LESSON)
    submission = Submission("anna", LESSON, str(classroom.folder("anna")), (LESSON,))

    def words() -> bytes:
        return Preparation(course, execute)._files(submission)["data/words.txt"]

    assert words() == b"ein Hund\n"
    execute.config.Autograde.exclude_overwriting = {LESSON: ["data/words.txt"]}
    assert words() == b"ein Kind"
    (classroom.folder("anna") / "data/words.txt").unlink()
    assert words() == b"ein Hund\n"


def test_a_submission_that_is_not_collected_completely_is_not_graded(
    classroom: Classroom, right: NotebookNode
) -> None:
    classroom.autograde()
    replacement = FolderReplacement(classroom.hand_in("bela", right))
    replacement.begin()  # as by a process that is killed afterwards
    classroom.hand_in("bela", right)
    classroom.autograde()
    assert "collecting it was interrupted" in classroom.not_graded["bela"]
    replacement.recover()
    assert classroom.autograde() == []
    assert graded(classroom, "bela")


def test_a_name_that_is_no_text_is_reported(classroom: Classroom, right: NotebookNode) -> None:
    classroom.hand_in("bela", right)
    folder = classroom.folder("bela").parent
    folder.rename(folder.with_name("b\udcffla"))
    said = classroom.autograde()
    assert [line for line in said if "the name of the student's folder is not valid UTF-8" in line]
    assert graded(classroom, "anna")


@pytest.mark.parametrize(
    "written", ["2025-02-03 10:11:12 UTC", "2025-02-03 10:11:12 +0100", "2025-02-03", ""]
)
def test_good_timestamps_are_let_through(tmp_path: Path, written: str) -> None:
    (tmp_path / "timestamp.txt").write_text(written)
    submission = Submission("anna", LESSON, str(tmp_path), (LESSON,))
    submission.inspect((), 1_000_000)
    assert (submission.refused, submission.notes, submission.tampering) == (set(), [], [])


@pytest.mark.parametrize(
    "written",
    [
        *("x", "2025-13-45", "9" * 30, "1 2 3", "1-1-1 1:1 -99999999999", "a b c", "0000-00-00", "1e999"),
        *("3.12.2026 18:30", "12/03/2026", "18:30", "Monday 18:30", "20261123"),
    ],
)
def test_what_nbgrader_cannot_read_as_a_time_or_may_misread_is_refused(tmp_path: Path, written: str) -> None:
    (tmp_path / "timestamp.txt").write_text(written)
    with pytest.raises(UnreadableError, match=r"such as 2026-11-23 18:30:00 in its timestamp\.txt"):
        refuse_bad_timestamp(tmp_path)


def test_repairs_are_written_into_the_graded_notebook(classroom: Classroom, right: NotebookNode) -> None:
    right.cells.remove(cell_of(right, "check_attention_scores"))
    cell_of(right, "check_predict_spread").metadata.nbgrader.points = 100
    classroom.hand_in("bela", right)
    classroom.autograde()
    grading = classroom.autograded("bela").metadata.course_grading
    assert len(grading.repairs) == len(grading.tampering) == 1
    assert grading.complete is True
    assert graded(classroom, "bela")


def test_the_same_submission_gives_the_same_bytes(classroom: Classroom, right: NotebookNode) -> None:
    for cell in right.cells:
        del cell["id"]
        cell.metadata = {}
    classroom.hand_in("bela", json.dumps(right).encode("utf-16"))
    found = []
    for _ in range(2):
        classroom.autograde(force=True)
        found.append((classroom.folder("bela", "autograded") / NAME).read_bytes())
    assert found[0] == found[1]


def test_only_the_students_that_were_asked_for_are_looked_at(
    classroom: Classroom, right: NotebookNode
) -> None:
    classroom.hand_in("bela", b"")
    classroom.autograde(student_id="anna")
    assert classroom.not_graded == {}
    assert graded(classroom, "anna")
    classroom.autograde(student_id_exclude="bela,anna")
    assert classroom.not_graded == {}


def test_a_lesson_that_was_never_released_is_no_crash(classroom: Classroom, right: NotebookNode) -> None:
    (classroom.course / "lessons" / LESSON / NAME).unlink()
    said = classroom.autograde()
    assert "generate_assignment 01-scores" in said[0]
    assert classroom.scores("anna") is None


def test_a_lesson_that_the_gradebook_does_not_know_is_said_before_anything_is_graded(
    classroom: Classroom, right: NotebookNode
) -> None:
    with Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db") as gradebook:
        gradebook.remove_assignment(LESSON)
    said = classroom.autograde()
    assert said[0].startswith("the gradebook has no lesson 01-scores yet. Run `nbgrader generate_assignment")
    assert len(said) == 2
    assert not classroom.folder("anna", "autograded").exists()


def test_graded_files_cannot_be_written(classroom: Classroom, right: NotebookNode) -> None:
    classroom.autograde()
    assert stat.S_IMODE((classroom.folder("anna", "autograded") / NAME).stat().st_mode) == 0o444
