import subprocess
import sys
from collections.abc import Callable

import pytest

from autograder import doctor as program
from autograder.judge.job import NotComputedError
from autograder.sandbox.confinement import WITHOUT, _probe, probe
from autograder.sandbox.fork_server import ForkServer
from course_lib.curriculum.course_file import CourseError

pytestmark = pytest.mark.sandbox


Doctor = Callable[[str], tuple[int, str]]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """A function that runs the command without some mechanisms and returns its exit code and output."""

    def run(without: str) -> tuple[int, str]:
        monkeypatch.setenv(WITHOUT, without)
        if not without:  # in its own process, as users run it
            command = [sys.executable, "-m", "autograder.doctor"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr
        monkeypatch.setattr("sys.argv", ["doctor"])
        return program.main(), capsys.readouterr().out

    return run


@pytest.mark.parametrize("left_out", ["", "bubblewrap", "landlock"])
def test_it_reports_mechanisms_and_gaps(doctor: Doctor, left_out: str) -> None:
    confinement = _probe(frozenset(filter(None, [left_out])))
    if not confinement.sufficient:
        pytest.skip("; ".join(reason for _, reason in confinement.reasons))
    code, said = doctor(left_out)
    assert code == 0, said
    assert f"Students' code is confined by {confinement.name}." in said
    assert "A notebook of two cells was graded" in said
    for gap in confinement.gaps:
        assert gap in said
    for fact in ("torch", "nbgrader", "cores", "GiB"):
        assert fact in said


def test_insufficient_confinement_exits_with_1_and_advice(doctor: Doctor) -> None:
    code, said = doctor("bubblewrap,landlock")
    assert code == 1, said
    assert "bubblewrap is disabled" in said
    assert "apt install bubblewrap" in said
    assert "c.SandboxedExecute.allow_unconfined = True" in said


def test_an_unknown_mechanism_exits_with_1(doctor: Doctor) -> None:
    code, said = doctor("bubblewarp")
    assert code == 1
    assert "unknown confinement mechanism bubblewarp" in said


def test_a_kernel_that_does_not_start_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    if not probe().sufficient:
        pytest.skip("nothing here can confine code")
    # This course can't be unpacked, because a path goes through another file as if it were a folder.
    monkeypatch.setattr(program, "whole_course", lambda: {"course": b"a file", "course/one.py": b""})
    with pytest.raises(CourseError, match=r"(?s)the kernel didn't start, .*Traceback"):
        program.run_smoke_test(probe())


def test_a_sandbox_that_ends_is_reported_with_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object) -> None:
        fork_server.close()
        raise NotComputedError("the sandbox ended")

    if not probe().sufficient:
        pytest.skip("nothing here can confine code")
    fork_server = ForkServer(probe())
    monkeypatch.setattr(program, "ForkServer", lambda _: fork_server)
    monkeypatch.setattr(program, "run", end)
    with pytest.raises(CourseError, match="failed: the sandbox ended"):
        program.run_smoke_test(probe())


def test_a_wrong_result_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    if not probe().sufficient:
        pytest.skip("nothing here can confine code")
    monkeypatch.setattr(program, "_LOCKED_CELL", "assert double(1) == 3, 'not three'")
    with pytest.raises(CourseError, match=r"got:\n42\n\nnot three"):
        program.run_smoke_test(probe())
