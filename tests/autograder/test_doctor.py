import os
import subprocess
import sys

import pytest

from autograder.judge import smoke_test as trial
from autograder.sandbox.confinement import WITHOUT, probe
from course_lib.curriculum.course_file import CourseError


def doctor(without: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autograder.doctor"],
        env=os.environ | {WITHOUT: without},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("left_out", ["", "bubblewrap", "landlock"])
def test_it_says_what_is_on_and_what_it_does_not_cover(left_out: str) -> None:
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


def test_where_nothing_is_sufficient_it_says_what_to_do_and_ends_with_1() -> None:
    done = doctor("bubblewrap,landlock")
    assert done.returncode == 1, done.stderr
    assert "bubblewrap is left out" in done.stdout
    assert "apt install bubblewrap" in done.stdout
    assert "c.SandboxedExecute.allow_unconfined = True" in done.stdout


def test_a_misspelt_mechanism_ends_with_1() -> None:
    done = doctor("bubblewarp")
    assert done.returncode == 1
    assert "there is no mechanism bubblewarp" in done.stdout
    assert done.stderr == ""


def test_a_machine_on_which_no_kernel_starts_is_not_called_good(monkeypatch: pytest.MonkeyPatch) -> None:
    if not probe().sufficient:
        pytest.skip("nothing here can confine code")
    # What cannot be unpacked: a file, and a file in it.
    monkeypatch.setattr(trial, "whole_course", lambda: {"course": b"a file", "course/one.py": b""})
    with pytest.raises(CourseError, match=r"(?s)the kernel did not start\n.*Traceback"):
        trial.grade_a_notebook(probe())


def test_a_wrong_result_is_not_called_good(monkeypatch: pytest.MonkeyPatch) -> None:
    if not probe().sufficient:
        pytest.skip("nothing here can confine code")
    monkeypatch.setattr(trial, "_LOCKED", "assert double(1) == 3, 'not three'")
    with pytest.raises(CourseError, match=r"came:\n42\n\nnot three"):
        trial.grade_a_notebook(probe())
