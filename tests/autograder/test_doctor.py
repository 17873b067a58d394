import os
import subprocess
import sys

import pytest

from autograder import doctor as program
from autograder.judge.job import NotComputedError
from autograder.sandbox.confinement import WITHOUT, probe
from autograder.sandbox.fork_server import ForkServer
from course_lib.curriculum.course_file import CourseError

pytestmark = pytest.mark.sandbox


def doctor(without: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autograder.doctor"],
        env=os.environ | {WITHOUT: without},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("left_out", ["", "bubblewrap", "landlock"])
def test_it_reports_mechanisms_and_gaps(left_out: str) -> None:
    confinement = probe(without=filter(None, [left_out]))
    if not confinement.sufficient:
        pytest.skip("; ".join(reason for _, reason in confinement.reasons))
    done = doctor(left_out)
    assert done.returncode == 0, done.stderr
    assert f"Students' code is confined by {confinement.name}." in done.stdout
    assert "A notebook of two cells was graded" in done.stdout
    for gap in confinement.gaps:
        assert gap in done.stdout
    for fact in ("torch", "nbgrader", "cores", "GiB"):
        assert fact in done.stdout


def test_insufficient_confinement_exits_with_1_and_advice() -> None:
    done = doctor("bubblewrap,landlock")
    assert done.returncode == 1, done.stderr
    assert "bubblewrap is disabled" in done.stdout
    assert "apt install bubblewrap" in done.stdout
    assert "c.SandboxedExecute.allow_unconfined = True" in done.stdout


def test_an_unknown_mechanism_exits_with_1() -> None:
    done = doctor("bubblewarp")
    assert done.returncode == 1
    assert "unknown confinement mechanism bubblewarp" in done.stdout
    assert done.stderr == ""


def test_a_kernel_that_does_not_start_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    if not probe().sufficient:
        pytest.skip("nothing here can confine code")
    # This can't be unpacked: a file, and another file below it.
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
