"""Two runs at once in one course would take each other's work for leftovers: the second one is refused."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nbgrader.converters.base import NbGraderException
from small_desk import Desk, solved

from autograder.nbgrader.lock import claim
from autograder.release.build import COURSE

HOLD = """
import sys, time
from pathlib import Path
from autograder.nbgrader.lock import claim
let_go = claim(Path(sys.argv[1]))
print("claimed", flush=True)
time.sleep(600)
"""


@contextmanager
def another_run(folder: Path) -> Iterator[None]:
    """A process that has claimed a course, and in the end is killed."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, cwd=COURSE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "claimed\n"
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
    assert said.startswith(
        f"another process is autograding in {desk.course / 'autograder'}, and two at a time"
    )
    assert ended == f"nbgrader ends with an error: {said}"
    assert half_done.read_text() == "{"
    # The system has let go for the process that was killed.
    assert not [line for line in desk.autograde() if "another process" in line]
    assert desk.scores("anna")


@pytest.mark.parametrize("content", [b"", b"<html>"])
def test_a_run_lets_go_however_it_ends(desk: Desk, content: bytes) -> None:
    folder = desk.course / "autograder"
    desk.autograde()  # nothing to grade
    claim(folder)()
    desk.hand_in("bela", content)
    assert desk.autograde()[-1].startswith("nbgrader ends with an error")
    claim(folder)()


def test_a_claim_holds_until_it_is_let_go(tmp_path: Path) -> None:
    let_go = claim(tmp_path)
    with pytest.raises(NbGraderException, match="another process is autograding in"):
        claim(tmp_path)
    let_go()
    claim(tmp_path)()
