"""Only one run of `nbgrader autograde` at a time works in a course."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nbgrader.converters.base import NbGraderException
from small_desk import Desk, solved

from autograder.nbgrader.lock import course_lock
from autograder.release.build import COURSE

HOLD = """
import logging, sys, time
from pathlib import Path
from autograder.nbgrader.lock import course_lock
with course_lock(Path(sys.argv[1]), logging.getLogger()):
    print("locked", flush=True)
    time.sleep(600)
"""


@contextmanager
def another_run(folder: Path) -> Iterator[None]:
    """A process that holds the lock of a course until it is killed."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, cwd=COURSE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "locked\n"
            yield
        finally:
            process.kill()


def test_while_another_run_grades_nothing_is_touched(desk: Desk) -> None:
    desk.hand_in("anna", solved(desk.released))
    half_done = desk.folder("anna", "autograded") / "01-scores.ipynb"
    half_done.parent.mkdir(parents=True)
    half_done.write_text("{")
    with another_run(desk.course / "autograder"):
        said, ended = desk.autograde()
    assert said.startswith(f"another process is autograding in {desk.course / 'autograder'}.")
    assert ended == f"nbgrader ends with an error: {said}"
    assert half_done.read_text() == "{"
    # The system has let go for the process that was killed.
    assert not [line for line in desk.autograde() if "another process" in line]
    assert desk.scores("anna")


@pytest.mark.parametrize("content", [b"", b"<html>"])
def test_a_run_releases_the_lock_however_it_ends(desk: Desk, content: bytes) -> None:
    desk.autograde()  # nothing to grade
    assert_unlocked(desk)
    desk.hand_in("bela", content)
    assert desk.autograde()[-1].startswith("nbgrader ends with an error")
    assert_unlocked(desk)


def test_a_lock_is_exclusive(tmp_path: Path) -> None:
    with (
        course_lock(tmp_path, logging.getLogger()),
        pytest.raises(NbGraderException, match="another process is autograding in"),
        course_lock(tmp_path, logging.getLogger()),
    ):
        pass


def assert_unlocked(desk: Desk) -> None:
    with course_lock(desk.course / "autograder", logging.getLogger()):
        pass
