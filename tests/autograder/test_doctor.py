import os
import subprocess
import sys

import pytest

from autograder.sandbox.confinement import WITHOUT, probe


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
