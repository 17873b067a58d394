"""Only one run of `nbgrader autograde` at a time can work in a course."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nbgrader.converters.base import NbGraderException

from autograder.nbgrader.grading_folder import course_lock
from autograder.nbgrader.replacement import FolderReplacement
from autograder.release.build import COURSE
from tests.autograder.nbgrader.classroom import Classroom, solved

HOLD = """
import logging, sys, time
from pathlib import Path
from autograder.nbgrader.grading_folder import course_lock
with course_lock(Path(sys.argv[1]), logging.getLogger()):
    print("locked", flush=True)
    time.sleep(600)
"""


@contextmanager
def another_run(folder: Path) -> Iterator[None]:
    """Start a process that holds the lock of a course, and kill it at the end of the block."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, cwd=COURSE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "locked\n"
            yield
        finally:
            process.kill()


@pytest.mark.slow
def test_while_another_run_grades_nothing_is_touched(classroom: Classroom) -> None:
    classroom.hand_in("anna", solved(classroom.released))
    half_done = classroom.folder("anna", "autograded") / "01-scores.ipynb"
    half_done.parent.mkdir(parents=True)
    half_done.write_text("{")
    with another_run(classroom.course / "autograder"):
        said, ended = classroom.autograde()
    assert said.startswith(f"another nbgrader command is working in {classroom.course / 'autograder'}.")
    assert ended == f"nbgrader ends with an error: {said}"
    assert half_done.read_text() == "{"
    # The operating system has released the lock of the killed process.
    assert not [line for line in classroom.autograde() if "another nbgrader" in line]
    assert classroom.scores("anna")


@pytest.mark.parametrize("content", [b"", b"<html>"])
def test_a_run_releases_the_lock_however_it_ends(classroom: Classroom, content: bytes) -> None:
    classroom.autograde()  # nothing to grade
    assert_unlocked(classroom)
    classroom.hand_in("bela", content)
    assert classroom.autograde()[-1].startswith("nbgrader ends with an error")
    assert_unlocked(classroom)


def test_a_lock_is_exclusive(tmp_path: Path) -> None:
    with (
        course_lock(tmp_path, logging.getLogger()),
        pytest.raises(NbGraderException, match="another nbgrader command is working in"),
        course_lock(tmp_path, logging.getLogger()),
    ):
        pass


def assert_unlocked(classroom: Classroom) -> None:
    with course_lock(classroom.course / "autograder", logging.getLogger()):
        pass


def test_a_folder_that_another_process_is_replacing_is_left_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "outbound/01-scores"
    folder.mkdir(parents=True)
    with FolderReplacement(folder).replacing():
        folder.mkdir()
        (folder / "new.txt").touch()
        for other in (FolderReplacement(folder), FolderReplacement(folder.with_name("02-masks"))):
            with pytest.raises(OSError, match="another process is replacing a folder in"), other.replacing():
                pass
        with pytest.raises(OSError, match="another process is replacing a folder in"):
            FolderReplacement(folder).recover()
    assert [path.name for path in folder.parent.rglob("*")] == [folder.name, "new.txt"]
