"""The Unix accounts of tests that were killed don't stay on the machine."""

import grp
import os
import pwd
import subprocess

import psutil
import pytest

from tests.autograder.nbgrader.unix_accounts import accounts, why_unavailable

pytestmark = [
    pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable())),
    pytest.mark.sandbox,
]


def test_accounts_of_a_killed_test_are_removed() -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with accounts("left", "behind", group="leftover") as (account, _):
            left = subprocess.Popen(["sleep", "600"], user=account.uid)
            os.write(write, str(left.pid).encode())
            os._exit(1)  # like SIGKILL, this skips the clean-up
    os.waitpid(child, 0)
    running = int(os.read(read, 100))
    assert pwd.getpwnam(f"left{child}")
    with accounts("first") as [first], accounts("second", group="students"):
        names = {account.pw_name for account in pwd.getpwall()}
        assert not names & {f"left{child}", f"behind{child}"}
        assert first.name in names
    assert f"leftover{child}" not in {group.gr_name for group in grp.getgrall()}
    assert not psutil.pid_exists(running) or psutil.Process(running).status() == psutil.STATUS_ZOMBIE
