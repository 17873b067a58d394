"""A class hands in all sorts of things: each is graded or reported by name, and none harms another."""

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.utils import parse_utc
from small_course import LESSON, cell_of
from small_desk import Desk, solved

from autograder.nbgrader.preparation import Preparation
from autograder.submissions.folder import Submission, refuse_bad_timestamp
from autograder.submissions.reading import UnreadableError

pytestmark = pytest.mark.sandbox

NAME = f"{LESSON}.ipynb"


@pytest.fixture
def right(desk: Desk) -> NotebookNode:
    """A solved lesson, which `anna` hands in."""
    notebook = solved(desk.released)
    desk.hand_in("anna", notebook)
    return notebook


def graded(desk: Desk, student: str) -> bool:
    """Say whether a student has the scores of a right lesson, which `anna` has handed in."""
    scores = desk.scores(student)
    return (
        scores is not None and scores == desk.scores("anna") and scores["check_attention_scores"] is not None
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
    desk: Desk, right: NotebookNode, content: bytes, reason: str
) -> None:
    desk.hand_in("bela", content)
    desk.hand_in("carl", right)
    said = desk.autograde()
    assert [line for line in said if line.startswith("bela, 01-scores: not graded: ") and reason in line]
    assert said[-1].startswith("nbgrader ends with an error")
    assert list(desk.not_graded) == ["bela"]
    assert reason in desk.not_graded["bela"]
    assert desk.scores("bela") is None
    assert not desk.folder("bela", "autograded").exists()
    assert graded(desk, "anna")
    assert graded(desk, "carl")


def test_a_submission_that_was_handed_in_again_is_taken_off_the_list(desk: Desk, right: NotebookNode) -> None:
    desk.hand_in("bela", b"")
    desk.hand_in("carl", b"")
    desk.autograde()
    desk.hand_in("bela", right)
    (desk.folder("carl") / NAME).unlink()
    desk.folder("carl").rmdir()
    desk.autograde()
    assert desk.not_graded == {}
    assert graded(desk, "bela")


def test_the_grade_of_an_earlier_submission_stays_if_a_later_one_cannot_be_read(
    desk: Desk, right: NotebookNode
) -> None:
    desk.hand_in("bela", right, at="2025-01-01 12:00:00 UTC")
    desk.autograde()
    with Gradebook(f"sqlite:///{desk.course}/autograder/gradebook.db") as gradebook:
        gradebook.find_grade("explain_root", LESSON, LESSON, "bela").manual_score = 2
        gradebook.db.commit()
    before = desk.state()
    desk.hand_in("bela", b"{", at="2025-01-02 12:00:00 UTC")
    for _ in range(2):
        assert "1 of 2 submissions could not be graded" in desk.autograde()[-1]
        assert "cut off" in desk.not_graded["bela"]
        after = desk.state()
        assert after["gradings"] == before["gradings"]
        assert after["files"] == before["files"]


@pytest.mark.parametrize("name", ["01-scores (1).ipynb", "Kopie von 01-scores.ipynb", f"{LESSON}/{NAME}"])
def test_the_only_notebook_counts_whatever_its_name(desk: Desk, right: NotebookNode, name: str) -> None:
    desk.hand_in("bela", right, name)
    desk.autograde()
    assert graded(desk, "bela")
    assert desk.told("bela") == [f"it was handed in as {name}, not {NAME}"]


def test_a_notebook_of_another_name_that_fails_gets_no_zero(desk: Desk, right: NotebookNode) -> None:
    desk.hand_in("bela", b"", "copy.ipynb")
    desk.autograde()
    assert desk.scores("bela") is None
    assert "empty" in desk.not_graded["bela"]


def test_where_it_cannot_be_told_which_notebook_counts_nobody_guesses(
    desk: Desk, right: NotebookNode
) -> None:
    desk.hand_in("bela", right, "a.ipynb")
    desk.hand_in("bela", desk.released, "b.ipynb")
    desk.hand_in("carl", b"notes", "notes.txt")
    desk.autograde()
    assert "notebooks found instead: a.ipynb, b.ipynb" in desk.not_graded["bela"]
    assert "no notebook in it" in desk.not_graded["carl"]
    assert desk.scores("bela") is desk.scores("carl") is None
    assert graded(desk, "anna")


def test_another_notebook_beside_the_graded_one_is_noted(desk: Desk, right: NotebookNode) -> None:
    desk.hand_in("bela", desk.released)
    desk.hand_in("bela", right, "01-scores (1).ipynb")
    desk.autograde()
    assert desk.told("bela") == ["there are other notebooks besides the graded one: 01-scores (1).ipynb"]


def test_links_are_not_followed(desk: Desk, right: NotebookNode) -> None:
    secret = desk.course / "autograder/gradebook.db"
    folder = desk.hand_in("bela", right)
    (folder / "book.db").symlink_to(secret)
    (folder / "inner").symlink_to(desk.course / "solutions")
    (folder / "[a-z]*").symlink_to(secret)
    os.mkfifo(folder / "pipe")
    (folder / "data.csv").write_text("kept")
    desk.autograde()
    assert graded(desk, "bela")
    copied = {path.name for path in desk.folder("bela", "autograded").rglob("*")}
    assert copied == {NAME, "data", "words.txt", "data.csv"}
    assert len(desk.told("bela")) == 4
    assert [note for note in desk.told("bela") if "book.db is a symbolic link" in note]


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_notebook_that_is_no_plain_file_is_not_opened(desk: Desk, right: NotebookNode, kind: str) -> None:
    folder = desk.folder("bela")
    folder.mkdir(parents=True)
    match kind:
        case "link":
            (folder / NAME).symlink_to(desk.folder("anna") / NAME)
        case "folder":
            (folder / NAME).mkdir()
        case "pipe":
            os.mkfifo(folder / NAME)
    desk.autograde()
    assert {"link": "link", "folder": "folder", "pipe": "not a regular file"}[kind] in desk.not_graded["bela"]
    assert desk.scores("bela") is None
    assert graded(desk, "anna")


@pytest.mark.parametrize("of", ["student", "lesson"])
def test_a_folder_that_is_a_link_is_not_entered(desk: Desk, right: NotebookNode, of: str) -> None:
    (desk.folder("anna") / "diary.txt").write_text("secret")
    folder = desk.folder("bela")
    if of == "lesson":
        folder.parent.mkdir(parents=True)
        folder.symlink_to(desk.folder("anna"))
    else:
        folder.parent.symlink_to(desk.folder("anna").parent)
    desk.autograde()
    assert "link" in desk.not_graded["bela"]
    assert not list((desk.course / "autograder/autograded").glob("bela/**/diary.txt"))
    assert desk.scores("bela") is None
    assert graded(desk, "anna")


def test_a_submission_that_is_a_file_is_reported(desk: Desk, right: NotebookNode) -> None:
    desk.folder("bela").parent.mkdir(parents=True)
    desk.folder("bela").write_text("here it is")
    desk.autograde()
    assert "is not a folder" in desk.not_graded["bela"]
    assert graded(desk, "anna")


def test_what_is_in_the_way_of_the_lessons_files_is_not_copied(desk: Desk, right: NotebookNode) -> None:
    (desk.hand_in("bela", right) / "data").write_text("a file where a folder is needed")
    (desk.hand_in("carl", right) / "data/words.txt/inner").mkdir(parents=True)
    (desk.folder("carl") / "data/words.txt/inner/x").write_text("a folder where a file is needed")
    desk.autograde()
    for student in ("bela", "carl"):
        assert graded(desk, student)
        assert (desk.folder(student, "autograded") / "data/words.txt").read_text() == "ein Hund\n"
        assert "has the name of a file of the lesson" in desk.told(student)[0]


def test_large_files_are_not_copied(desk: Desk, right: NotebookNode) -> None:
    with (desk.hand_in("bela", right) / "model.pt").open("wb") as file:
        file.truncate(200_000_000)
    desk.autograde()
    assert graded(desk, "bela")
    assert desk.told("bela") == ["model.pt is larger than 100 MB; it was not copied"]
    assert not (desk.folder("bela", "autograded") / "model.pt").exists()


def test_a_folder_full_of_links_costs_nothing(desk: Desk, right: NotebookNode) -> None:
    folder = desk.hand_in("bela", right)
    for number in range(500):
        (folder / f"link{number}").symlink_to("/etc/hostname")
    desk.autograde()
    assert graded(desk, "bela")
    assert len(desk.told("bela")) == 11
    assert not list(desk.folder("bela", "autograded").glob("link*"))


@pytest.mark.parametrize("kind", ["nonsense", "link", "pipe", "folder", "long", "binary", "number"])
def test_a_bad_timestamp_is_reported(desk: Desk, right: NotebookNode, kind: str) -> None:
    path = desk.hand_in("bela", right) / "timestamp.txt"
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
        case "number":  # in hours, which the parser stumbles over in a way of its own
            path.write_text("1" * 40 + "h")
    said = desk.autograde()
    assert [line for line in said if line.startswith("bela, 01-scores: not graded: its timestamp.txt")]
    assert "timestamp.txt" in desk.not_graded["bela"]
    assert desk.scores("bela") is None
    assert graded(desk, "anna")


def test_a_bad_timestamp_changes_no_grade_and_is_forgotten_once_it_is_corrected(
    desk: Desk, right: NotebookNode
) -> None:
    timestamp = desk.hand_in("bela", right, at="2025-01-01") / "timestamp.txt"
    desk.autograde()
    timestamp.write_text("yesterday, I think")
    desk.autograde()
    assert graded(desk, "bela")
    assert list(desk.not_graded) == ["bela"]
    timestamp.write_text("2025-01-01")
    assert desk.autograde() == []
    assert graded(desk, "bela")
    assert desk.not_graded == {}


def test_folders_in_folders_without_end_stop_nobody_else(desk: Desk, right: NotebookNode) -> None:
    # Given name by name: no path to the innermost would be short enough.
    where = os.open(desk.hand_in("bela", right), os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("a", dir_fd=where)
        inner = os.open("a", os.O_RDONLY, dir_fd=where)
        os.close(where)
        where = inner
    os.close(where)
    desk.autograde()
    assert desk.not_graded == {"bela": "its folders are nested more than 50 deep"}
    assert graded(desk, "anna")
    subprocess.run(["rm", "-r", desk.folder("bela")], check=True)  # pytest's own way would raise


@pytest.mark.parametrize("content", ["{", "[]", '{"01-scores": ["bela"]}', '{"01-scores": {"bela": 3}}'])
def test_a_damaged_list_is_begun_anew(desk: Desk, right: NotebookNode, content: str) -> None:
    (desk.course / "autograder" / "not_graded.json").write_text(content)
    assert desk.autograde() == []
    assert desk.not_graded == {}
    assert graded(desk, "anna")


def test_whatever_a_submission_raises_the_others_are_graded(
    desk: Desk, right: NotebookNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.hand_in("bela", right)
    desk.hand_in("carl", right)
    inspect, read = Submission.inspect, Preparation._read

    def inspect_it(self: Submission, *arguments: Any) -> None:
        if self.student == "bela":
            raise ArithmeticError("what nobody has thought of")
        inspect(self, *arguments)

    def read_it(self: Preparation, submission: Submission, name: str) -> Any:
        if submission.student == "carl":
            raise ArithmeticError("what nobody has thought of")
        return read(self, submission, name)

    monkeypatch.setattr(Submission, "inspect", inspect_it)
    monkeypatch.setattr(Preparation, "_read", read_it)
    desk.autograde()
    reason = "ArithmeticError: what nobody has thought of"
    assert desk.not_graded == {"bela": reason, "carl": reason}
    assert desk.scores("carl") is None
    assert graded(desk, "anna")


def test_a_name_that_is_no_text_is_reported(desk: Desk, right: NotebookNode) -> None:
    desk.hand_in("bela", right)
    folder = desk.folder("bela").parent
    folder.rename(folder.with_name("b\udcffla"))
    said = desk.autograde()
    assert [line for line in said if "the name of the student's folder is not valid UTF-8" in line]
    assert graded(desk, "anna")


@pytest.mark.parametrize(
    "written", ["2025-02-03 10:11:12 UTC", "2025-02-03 10:11:12 +0100", "2025-02-03", ""]
)
def test_good_timestamps_are_let_through(tmp_path: Path, written: str) -> None:
    (tmp_path / "timestamp.txt").write_text(written)
    submission = Submission("anna", LESSON, str(tmp_path), (LESSON,))
    submission.inspect((), 1_000_000)
    assert (submission.refused, submission.notes, submission.tampering) == ([], [], [])


@pytest.mark.parametrize(
    "written",
    ["x", "2025-13-45", "9" * 30, "1 2 3", "1-1-1 1:1 -99999999999", "a b c", "0000-00-00", "1e999"],
)
def test_what_nbgrader_cannot_read_as_a_time_is_refused(tmp_path: Path, written: str) -> None:
    (tmp_path / "timestamp.txt").write_text(written)
    try:
        parse_utc(written)
    except Exception:
        with pytest.raises(UnreadableError):
            refuse_bad_timestamp(Submission("anna", LESSON, str(tmp_path), (LESSON,)))
    else:
        refuse_bad_timestamp(Submission("anna", LESSON, str(tmp_path), (LESSON,)))


def test_repairs_are_written_into_the_graded_notebook(desk: Desk, right: NotebookNode) -> None:
    right.cells.remove(cell_of(right, "check_attention_scores"))
    cell_of(right, "check_predict_spread").metadata.nbgrader.points = 100
    desk.hand_in("bela", right)
    desk.autograde()
    grading = desk.autograded("bela").metadata.course_grading
    assert len(grading.repairs) == len(grading.tampering) == 1
    assert grading.complete is True
    assert graded(desk, "bela")


def test_the_same_submission_gives_the_same_bytes(desk: Desk, right: NotebookNode) -> None:
    for cell in right.cells:
        del cell["id"]
        cell.metadata = {}
    desk.hand_in("bela", json.dumps(right).encode("utf-16"))
    found = []
    for _ in range(2):
        desk.autograde(force=True)
        found.append((desk.folder("bela", "autograded") / NAME).read_bytes())
    assert found[0] == found[1]


def test_only_the_students_that_were_asked_for_are_looked_at(desk: Desk, right: NotebookNode) -> None:
    desk.hand_in("bela", b"")
    desk.autograde(student_id="anna")
    assert desk.not_graded == {}
    assert graded(desk, "anna")
    desk.autograde(student_id_exclude="bela,anna")
    assert desk.not_graded == {}


def test_a_lesson_that_was_never_released_is_no_crash(desk: Desk, right: NotebookNode) -> None:
    (desk.course / "lessons" / LESSON / NAME).unlink()
    said = desk.autograde()
    assert "generate_assignment 01-scores" in said[0]
    assert desk.scores("anna") is None


def test_a_lesson_that_the_gradebook_does_not_know_is_said_before_anything_is_graded(
    desk: Desk, right: NotebookNode
) -> None:
    (desk.course / "autograder/gradebook.db").unlink()
    said = desk.autograde()
    assert said[0].startswith("the gradebook does not know 01-scores yet. Run `nbgrader generate_assignment")
    assert len(said) == 2
    assert not desk.folder("anna", "autograded").exists()


def test_graded_files_cannot_be_written(desk: Desk, right: NotebookNode) -> None:
    desk.autograde()
    assert stat.S_IMODE((desk.folder("anna", "autograded") / NAME).stat().st_mode) == 0o444
