"""Determine how students' code can be confined on this machine, by trying to break out of each mechanism.

`probe` runs this module as a program that makes the attempts inside the sandbox.
"""

import ctypes
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.sandbox import bubblewrap, landlock, system_calls

MECHANISMS = ("bubblewrap", "landlock", "seccomp")

#: The environment variable that lists mechanisms to disable, separated by commas. It is used to test the
#: remaining ones.
WITHOUT = "COURSE_SANDBOX_WITHOUT"

#: The attempts that each mechanism must stop on its own to count as working. From ABI versions 4 and 6 on,
#: Landlock stops more of them.
_STOPS = {
    "bubblewrap": {"read", "list", "write", "tcp", "udp", "unix", "signal", "trace"},
    "landlock": {"read", "list", "write", "trace"},
    "seccomp": {"tcp", "udp", "unix", "signal", "trace"},
}
#: The timeout of the attempts in seconds, which is long so that a busy machine isn't rejected.
_TIMEOUT = 60
_SCRATCH_BYTES = 2**20
#: The files of this package, which must be readable inside bubblewrap's sandbox.
SANDBOX_FILES = tuple(bubblewrap.COURSE / "autograder" / name for name in ("__init__.py", "sandbox"))


@dataclass(frozen=True)
class Confinement:
    """The mechanisms that confine students' code on this machine, each of them tested."""

    bubblewrap: bool
    landlock_abi: int
    """The ABI version of Landlock, 0 for none."""
    seccomp: bool
    reasons: tuple[tuple[str, str], ...] = ()
    """The mechanisms that are disabled or don't work, each with the reason as a sentence."""
    exposed: tuple[Path, ...] = ()
    """Folders of the Python environment that contain the course itself, including its solutions."""

    @property
    def name(self) -> str:
        """The enabled mechanisms, such as "bubblewrap + Landlock (ABI 7) + seccomp + rlimits"."""
        parts = [
            "bubblewrap" if self.bubblewrap else "",
            f"Landlock (ABI {self.landlock_abi})" if self.landlock_abi else "",
            "seccomp" if self.seccomp else "",
            "rlimits",
        ]
        return " + ".join(filter(None, parts))

    @property
    def sufficient(self) -> bool:
        """Whether students' code can be graded in this confinement.

        It must block access to the network, to the course itself and to files outside the sandbox, and
        protect the sandbox's own processes.
        """
        return self.seccomp and (self.bubblewrap or self.landlock_abi > 0) and not self.exposed

    @property
    def gaps(self) -> tuple[str, ...]:
        """The gaps in the confinement, one sentence each."""
        return tuple(self._gaps())

    def _gaps(self) -> Iterator[str]:
        for folder in self.exposed:
            yield f"Students' code can read the whole course: {folder} is part of the Python environment."
        if not self.bubblewrap and not self.landlock_abi:
            yield "Students' code can read and write all files that the grader can."
        elif not self.bubblewrap:
            yield "Students' code can see names, sizes and times of outside files, but not their contents."
        if not self.bubblewrap:
            yield "Students' code can see that other processes, mounts and network connections exist."
        if not self.seccomp:
            yield "Students' code can signal the sandbox's own processes, and use every system call."
        if not self.seccomp and not self.bubblewrap:
            tcp = "" if self.landlock_abi >= 4 else "TCP, "
            yield f"The network is open: {tcp}UDP and unix sockets."
        if self.bubblewrap and not self.landlock_abi:
            yield "Kernels use the same scratch folder one after another; it is emptied in between."
        if not self.bubblewrap:
            yield "The size limit of the scratch folder is checked a few times a second, but not enforced."
        yield "The memory limit of each process is enforced; the limit on their sum is only checked."
        if not self.bubblewrap or (os.name == "posix" and os.geteuid() == 0):
            yield "The limit on processes is checked a few times a second, but not enforced."
        yield "Bugs in Linux itself and timing side channels are not covered."


def probe() -> Confinement:
    """Test the confinement mechanisms on this machine, and return the result, which is cached.

    Mechanisms in the environment variable COURSE_SANDBOX_WITHOUT are disabled. Raises ValueError if one of
    these names is unknown.
    """
    named = (name.strip() for name in os.environ.get(WITHOUT, "").split(","))
    disabled = frozenset(filter(None, named))
    if unknown := sorted(disabled - set(MECHANISMS)):
        raise ValueError(
            f"unknown confinement mechanism {', '.join(unknown)} in the environment variable {WITHOUT}; "
            f"choose from {', '.join(MECHANISMS)}"
        )
    return _probe(disabled)


def require(confinement: Confinement, allow_unconfined: bool) -> None:
    """Raise CourseError if the confinement is insufficient, unless `allow_unconfined` is true."""
    if confinement.sufficient or allow_unconfined:
        return
    from course_lib.curriculum.course_file import CourseError  # This isn't available inside the sandbox.

    raise CourseError(
        [
            "Students' code can't be confined on this machine, so nothing is graded.",
            *(f"  {reason}" for _, reason in confinement.reasons),
            *(f"  {gap}" for gap in confinement.gaps[:1] if confinement.exposed),
            "Install bubblewrap (apt install bubblewrap), or use a Linux kernel with Landlock (5.13 or "
            "later); a container must permit one of them. Either of them also needs libseccomp, and an "
            "editable installation of the course (pip install --editable) outside the folders of Python and "
            "its packages.",
            "`course doctor` shows details. To grade anyway, although students' code could then read, change "
            "and send everything that you can, set c.SandboxedExecute.allow_unconfined = True",
        ]
    )


@functools.cache
def _probe(disabled: frozenset[str]) -> Confinement:
    reasons = {name: reason for name in MECHANISMS if (reason := _unavailable_reason(name, disabled))}
    return Confinement(
        bubblewrap="bubblewrap" not in reasons,
        landlock_abi=0 if "landlock" in reasons else landlock.abi(),
        seccomp="seccomp" not in reasons,
        reasons=tuple(reasons.items()),
        exposed=tuple(
            path for path in bubblewrap.environment_paths() if bubblewrap.COURSE.is_relative_to(path)
        ),
    )


def _unavailable_reason(mechanism: str, disabled: frozenset[str]) -> str:
    """Return why a mechanism can't be used, as a sentence, or an empty string if it works."""
    if mechanism in disabled:
        return f"{mechanism} is disabled by the environment variable {WITHOUT}."
    if sys.platform != "linux":
        return f"{mechanism} is specific to Linux, and this is {sys.platform}."
    match mechanism:
        case "bubblewrap" if shutil.which("bwrap") is None:
            return "bubblewrap is not installed: there is no program bwrap."
        case "landlock":
            try:
                landlock.abi()
            except OSError as error:
                return f"Landlock can't be used: {error}."
        case "seccomp" if reason := system_calls.unavailable_reason():
            return f"seccomp can't be used: {reason}."
    try:
        successes = attempt([mechanism])
    except BrokenSandboxError as failed:
        cause = bubblewrap.likely_obstacle() if mechanism == "bubblewrap" else ""
        return f"{mechanism} does not work here: {failed}" + (f". {cause}" if cause else "")
    if broken := sorted(successes & _STOPS[mechanism]):
        return f"{mechanism} is not effective here, because these attempts succeeded: {', '.join(broken)}."
    return ""


class BrokenSandboxError(Exception):
    """The error raised if code can't run normally in a sandbox."""


def attempt(mechanisms: Sequence[str]) -> set[str]:
    """Try to break out of a sandbox with all of these mechanisms, and return the attempts that succeeded.

    The attempts are "read", "list" and "write" (files outside), "tcp", "udp" and "unix" (connections to this
    process), "signal" and "trace" (another process). Raises BrokenSandboxError if a program inside the
    sandbox can't start, write to its scratch folder, start a thread or fork, or doesn't finish in time.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="course-probe-"))).resolve()
        secret = folder / "outside" / "secret"
        secret.parent.mkdir()
        secret.write_text("the grader's", encoding="utf-8")
        inside = bubblewrap.SCRATCH if "bubblewrap" in mechanisms else folder / "scratch"
        if "bubblewrap" not in mechanisms:
            inside.mkdir()
        listeners = stack.enter_context(_listeners(folder / "outside" / "socket"))
        victim = stack.enter_context(_victim())
        task = {
            "restrict": "landlock" in mechanisms,
            "deny": "seccomp" in mechanisms,
            "scratch": str(inside),
            "secret": str(secret),
            "tcp": listeners["tcp"].getsockname()[1],
            "udp": listeners["udp"].getsockname()[1],
            "victim": victim.pid,
        }
        program = [sys.executable, "-m", "autograder.sandbox.confinement", json.dumps(task)]
        if "bubblewrap" in mechanisms:
            readable = (*bubblewrap.environment_paths(), *SANDBOX_FILES)
            program = bubblewrap.command(program, readable, None, _SCRATCH_BYTES)
        try:
            done = subprocess.run(
                program, env=bubblewrap.VARIABLES, cwd="/", stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=_TIMEOUT,
            )  # fmt: skip
        except OSError as error:
            raise BrokenSandboxError(f"{error}") from None
        except subprocess.TimeoutExpired:
            raise BrokenSandboxError(f"its test didn't finish within {_TIMEOUT} seconds") from None
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise BrokenSandboxError(lines[-1])
        successes = set(json.loads(done.stdout))
        successes |= {name for name, listener in listeners.items() if select.select([listener], [], [], 0)[0]}
        if (
            sorted(secret.parent.iterdir()) != [secret, secret.parent / "socket"]
            or secret.read_text(encoding="utf-8") != "the grader's"
        ):
            successes.add("write")
        return successes


@contextmanager
def _listeners(path: Path) -> Iterator[dict[str, socket.socket]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(type=socket.SOCK_DGRAM) as udp,
        socket.create_server(str(path), family=socket.AF_UNIX) as unix,
    ):
        udp.bind(("127.0.0.1", 0))
        yield {"tcp": tcp, "udp": udp, "unix": unix}


@contextmanager
def _victim() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", str(2 * _TIMEOUT)], stdin=subprocess.DEVNULL) as victim:
        try:
            yield victim
        finally:
            victim.kill()


# The functions below run inside the sandbox.


def _attempt_inside(task: Mapping[str, Any]) -> list[str]:
    """Confine this process as specified by `task`, check that it works normally, and try to break out.

    Return which of the attempts "read", "list", "trace" and "signal" raised no error. The process outside
    the sandbox observes whether the other attempts succeed.
    """
    scratch = Path(task["scratch"])
    if task["restrict"]:
        landlock.restrict([*bubblewrap.environment_paths(), *SANDBOX_FILES], [scratch], [])
    if task["deny"]:
        system_calls.deny_system_calls()
    (scratch / "own").write_text("own", encoding="utf-8")
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    secret = Path(task["secret"])
    localhost = "127.0.0.1"
    # The process outside the sandbox observes whether these attempts succeed, because in a separate network
    # namespace, sending raises no error even if nothing arrives.
    observed_outside: tuple[Callable[[], object], ...] = (
        lambda: secret.write_text("the student's", encoding="utf-8"),
        (secret.parent / "more").touch,
        lambda: socket.create_connection((localhost, task["tcp"]), timeout=5),
        lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"out", (localhost, task["udp"])),
        lambda: socket.socket(socket.AF_UNIX).connect(str(secret.parent / "socket")),
    )
    for act in observed_outside:
        _succeeds(act)
    observed_here: dict[str, Callable[[], object]] = {
        "read": secret.read_text,
        "list": lambda: list(secret.parent.iterdir()),
        "trace": lambda: _trace(task["victim"]),
    }
    successes = [name for name, act in observed_here.items() if _succeeds(act)]
    # Send the signal last, because it may kill the victim. In bubblewrap, this process or its parent may have
    # the victim's pid by chance.
    if task["victim"] in (os.getppid(), os.getpid()):
        return successes
    return successes + ["signal"] * _succeeds(lambda: os.kill(task["victim"], signal.SIGKILL))


def _succeeds(act: Callable[[], object]) -> bool:
    try:
        act()
    except OSError:
        return False
    return True


def _trace(process: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    attach, detach = 16, 17  # sys/ptrace.h
    null = ctypes.c_void_p(0)
    if libc.ptrace(ctypes.c_long(attach), ctypes.c_long(process), null, null):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    os.waitpid(process, 0)
    libc.ptrace(ctypes.c_long(detach), ctypes.c_long(process), null, null)


if __name__ == "__main__":
    print(json.dumps(_attempt_inside(json.loads(sys.argv[1]))))
