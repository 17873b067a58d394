"""Real Unix accounts for tests, created with `useradd` and removed afterwards."""

import grp
import io
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

#: Debian keeps these commands in a folder that isn't on the PATH of every shell or every CI system.
_SYSTEM_PATH = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/sbin{os.pathsep}/sbin"


#: The comment field of test accounts, which identifies those that a killed test left behind.
_COMMENT = "account of a test"


@dataclass(frozen=True)
class Account:
    """A Unix account that belongs to one shared group."""

    name: str
    uid: int
    group: int

    def call(self, function: Callable[[], object], umask: int = 0o002) -> tuple[int, str]:
        """Call a function in a child process that runs as this user. Return its exit code and its output."""
        return self.start(function, umask)()

    def start(self, function: Callable[[], object], umask: int = 0o002) -> Callable[[], tuple[int, str]]:
        """Start a function in a child process that runs as this user. Return a function that waits for it.

        The child is forked, because another account may not be able to read the interpreter's own files.
        """
        output = tempfile.TemporaryFile()  # noqa: SIM115 - `wait` closes it
        child = os.fork()
        if child == 0:
            code = 70
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                sys.stdout = sys.stderr = io.TextIOWrapper(
                    io.FileIO(1, "w"), encoding="utf-8", line_buffering=True
                )
                os.setgroups([])
                os.setresgid(self.group, self.group, self.group)
                os.setresuid(self.uid, self.uid, self.uid)
                os.umask(umask)
                function()
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)

        def wait() -> tuple[int, str]:
            with output:
                _, status = os.waitpid(child, 0)
                output.seek(0)
                return os.waitstatus_to_exitcode(status), output.read().decode()

        return wait


def why_unavailable() -> str | None:
    """Return why accounts cannot be created here, or None if they can."""
    if os.geteuid() != 0:
        return "only root can create Unix accounts"
    if not shutil.which("useradd", path=_SYSTEM_PATH):
        return "there is no useradd on this machine"
    return None


def _run(*command: str, check: bool = True, typed: str | None = None) -> None:
    program = shutil.which(command[0], path=_SYSTEM_PATH) or command[0]
    subprocess.run([program, *command[1:]], check=check, capture_output=not check, input=typed, text=True)


def give_home(account: Account, home: Path, password: str | None = None) -> None:
    """Create an account's private home folder. If a password is given, the account can log in."""
    home.mkdir(mode=0o700, parents=True)
    os.chown(home, account.uid, account.group)
    _run("usermod", "--home", str(home), "--shell", "/bin/bash", account.name)
    if password:
        _run("chpasswd", typed=f"{account.name}:{password}\n")


def _remove_leftovers() -> None:
    """Remove the accounts of tests that were killed, and end their processes."""
    for account in pwd.getpwall():
        test = re.search(r"\d+$", account.pw_name)
        if account.pw_gecos != _COMMENT or test is None or psutil.pid_exists(int(test[0])):
            continue
        for process in psutil.process_iter(["uids"]):
            if process.info["uids"].real == account.pw_uid:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
                    process.wait(10)
        group = grp.getgrgid(account.pw_gid).gr_name
        _run("userdel", account.pw_name, check=False)
        _run("groupdel", group, check=False)  # fails while another account uses the group


@contextmanager
def accounts(*roles: str, group: str = "course") -> Iterator[list[Account]]:
    """Create one account per role, all in one group, and remove them afterwards.

    Each name ends with the id of this process, which shows whether the test that created an account is still
    running. Accounts that killed tests left behind are removed first.
    """
    _remove_leftovers()
    group = f"{group}{os.getpid()}"
    names = [f"{role}{os.getpid()}" for role in roles]
    options = ("--no-create-home", "--no-log-init", "--comment", _COMMENT, "--gid", group)
    _run("groupadd", group)
    try:
        for name in names:
            _run("useradd", *options, name)
        yield [Account(name, pwd.getpwnam(name).pw_uid, grp.getgrnam(group).gr_gid) for name in names]
    finally:
        for name in names:
            _run("userdel", name, check=False)
        _run("groupdel", group, check=False)
