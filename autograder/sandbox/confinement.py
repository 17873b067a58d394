"""Find out what can confine a student's code on this machine, by trying to break out of it.

`python -m autograder.sandbox.confinement` is the one that tries: `probe` starts it.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.sandbox import bubblewrap, landlock, system_calls

MECHANISMS = ("bubblewrap", "landlock", "seccomp")

#: An environment variable with the mechanisms not to use, so that the weaker ones can be tried: "bubblewrap".
WITHOUT = "COURSE_SANDBOX_WITHOUT"

#: What each mechanism has to stop by itself to count as working. Landlock 4 and 6 also stop more.
_STOPS = {
    "bubblewrap": {"read", "list", "write", "tcp", "udp", "unix", "signal", "trace"},
    "landlock": {"read", "list", "write", "trace"},
    "seccomp": {"tcp", "udp", "unix", "signal", "trace"},
}
_SECONDS = 60  # for one try: a busy machine is no reason to refuse
_SCRATCH_BYTES = 2**20
_COURSE = Path(__file__).resolve().parents[2]
_OWN = (_COURSE / "autograder" / "__init__.py", _COURSE / "autograder" / "sandbox")


@dataclass(frozen=True)
class Confinement:
    """What confines a student's code here: each mechanism was tried."""

    bubblewrap: bool
    landlock_abi: int
    """The version of Landlock, 0 for none."""
    seccomp: bool
    reasons: tuple[tuple[str, str], ...] = ()
    """The mechanisms that are off, each with the reason in a sentence."""
    exposed: tuple[Path, ...] = ()
    """Folders of the environment that hold the course itself, its solutions included."""

    @property
    def name(self) -> str:
        """What is on, such as "bubblewrap + Landlock (ABI 7) + seccomp + rlimits"."""
        parts = [
            "bubblewrap" if self.bubblewrap else "",
            f"Landlock (ABI {self.landlock_abi})" if self.landlock_abi else "",
            "seccomp" if self.seccomp else "",
            "rlimits",
        ]
        return " + ".join(filter(None, parts))

    @property
    def sufficient(self) -> bool:
        """Whether reads, writes and the network are shut, and the sandbox's own processes safe."""
        return self.seccomp and (self.bubblewrap or self.landlock_abi > 0) and not self.exposed

    @property
    def gaps(self) -> tuple[str, ...]:
        """What it does not cover, a sentence each."""
        return tuple(self._gaps())

    def _gaps(self) -> Iterator[str]:
        for folder in self.exposed:
            yield f"A student's code can read the whole course: {folder} is part of the environment."
        if not self.bubblewrap and not self.landlock_abi:
            yield "A student's code can read and write all files that the grader can."
        elif not self.bubblewrap:
            yield "That a file outside is there, its size and its times can be seen, but not what is in it."
        if not self.seccomp:
            yield "A student's code can signal the sandbox's own processes, and try all calls of Linux."
        if not self.seccomp and not self.bubblewrap:
            tcp = "" if self.landlock_abi >= 4 else "TCP, "
            yield f"The network is open: {tcp}UDP and unix sockets."
        if self.bubblewrap and not self.landlock_abi:
            yield "Kernels use the same scratch folder, one after the other; it is emptied in between."
        if not self.bubblewrap:
            yield "The size of the scratch folder is watched, a few times a second, and not enforced."
        yield "The memory of all processes together is watched and not enforced; that of each one is."
        if not self.bubblewrap or _is_root():
            yield "The number of processes is watched, a few times a second, and not enforced."
        yield "Mistakes in Linux itself, and what can be told from how busy the machine is, are not covered."


def probe(without: Iterable[str] = ()) -> Confinement:
    """Try each mechanism for real, once a process. `without` names mechanisms not to use, as WITHOUT does.

    Raises ValueError for a mechanism that there is not.
    """
    named = [name.strip() for name in os.environ.get(WITHOUT, "").split(",")]
    left_out = frozenset(without) | frozenset(filter(None, named))
    if unknown := sorted(left_out - set(MECHANISMS)):
        raise ValueError(
            f"there is no mechanism {', '.join(unknown)} to confine with; there are {', '.join(MECHANISMS)} "
            f"(asked for by `without` or the environment variable {WITHOUT})"
        )
    return _probe(left_out)


def require(confinement: Confinement, allow_unconfined: bool) -> None:
    """Raise CourseError where a student's code could do harm, unless `allow_unconfined` says that it may."""
    if confinement.sufficient or allow_unconfined:
        return
    from course_lib.curriculum.course_file import CourseError  # not there inside the sandbox

    raise CourseError(
        [
            "Students' code cannot be confined on this machine, so nothing is graded.",
            *(f"  {reason}" for _, reason in confinement.reasons),
            *(f"  {gap}" for gap in confinement.gaps[:1] if confinement.exposed),
            "What helps: bubblewrap from the distribution's packages (apt install bubblewrap), or a Linux "
            "kernel with Landlock (5.13 or later). Either of them needs libseccomp, and the course installed "
            "as editable (pip install --editable), outside the folders of Python and its packages.",
            "`python -m autograder.doctor` says more. To grade all the same, with code that may read, change "
            "and send whatever you can: c.SandboxedExecute.allow_unconfined = True",
        ]
    )


@functools.cache
def _probe(left_out: frozenset[str]) -> Confinement:
    reasons = {name: _why_not(name, left_out) for name in MECHANISMS}
    reasons = {name: reason for name, reason in reasons.items() if reason}
    return Confinement(
        bubblewrap="bubblewrap" not in reasons,
        landlock_abi=0 if "landlock" in reasons else landlock.abi(),
        seccomp="seccomp" not in reasons,
        reasons=tuple(reasons.items()),
        exposed=tuple(path for path in bubblewrap.environment() if _COURSE.is_relative_to(path)),
    )


def _why_not(mechanism: str, left_out: frozenset[str]) -> str:
    """Give the reason why a mechanism is off, as a sentence; nothing where it works."""
    if mechanism in left_out:
        return f"{mechanism} is left out, as asked for (by `without` or {WITHOUT})."
    if sys.platform != "linux":
        return f"{mechanism} is a part of Linux, and this is {sys.platform}."
    match mechanism:
        case "bubblewrap" if shutil.which("bwrap") is None:
            return "bubblewrap is not installed (no program bwrap)."
        case "landlock" if not landlock.abi():
            return "Landlock is not in this Linux kernel, or switched off (5.13 or later has it)."
        case "seccomp" if reason := system_calls.available():
            return f"seccomp cannot be used: {reason}."
    try:
        managed = attempt([mechanism])
    except OutOfOrderError as failed:
        return f"{mechanism} does not work here: {failed}"
    if broken := sorted(managed & _STOPS[mechanism]):
        return f"{mechanism} is not effective here: what was tried inside did not fail ({', '.join(broken)})."
    return ""


class OutOfOrderError(Exception):
    """What has to work inside did not."""


def attempt(mechanisms: Sequence[str]) -> set[str]:
    """Try to break out of some mechanisms together, and give which attempts came through.

    The attempts are "read", "list" and "write" (files outside), "tcp", "udp", "unix" (connections to this
    process), "signal" and "trace" (another process). Raises OutOfOrderError where a program cannot even
    start, write into its scratch folder, start a thread and fork.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="course-probe-"))).resolve()
        secret = folder / "outside" / "secret"
        secret.parent.mkdir()
        secret.write_text("of the grader")
        inside = bubblewrap.SCRATCH if "bubblewrap" in mechanisms else folder / "scratch"
        if "bubblewrap" not in mechanisms:
            inside.mkdir()
        listeners = stack.enter_context(_listeners(folder / "outside" / "socket"))
        victim = stack.enter_context(_victim())
        task = {
            "restrict": "landlock" in mechanisms,
            "refuse": "seccomp" in mechanisms,
            "scratch": str(inside),
            "secret": str(secret),
            "tcp": listeners["tcp"].getsockname()[1],
            "udp": listeners["udp"].getsockname()[1],
            "victim": victim.pid,
        }
        program = [sys.executable, "-m", "autograder.sandbox.confinement", json.dumps(task)]
        if "bubblewrap" in mechanisms:
            readable = (*bubblewrap.environment(), *_OWN)
            program = bubblewrap.command(program, readable, (), None, _SCRATCH_BYTES)
        try:
            done = subprocess.run(
                program, env=bubblewrap.VARIABLES, cwd="/", stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=_SECONDS,
            )  # fmt: skip
        except OSError as error:
            raise OutOfOrderError(f"{error}") from None
        except subprocess.TimeoutExpired:
            raise OutOfOrderError(f"a try did not end within {_SECONDS} seconds") from None
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"it ended with exit code {done.returncode}"]
            raise OutOfOrderError(said[-1])
        managed = set(json.loads(done.stdout))
        managed |= {name for name, listener in listeners.items() if select.select([listener], [], [], 0)[0]}
        if (
            sorted(secret.parent.iterdir()) != [secret, secret.parent / "socket"]
            or secret.read_text() != "of the grader"
        ):
            managed.add("write")
        return managed


@contextmanager
def _listeners(path: Path) -> Iterator[dict[str, socket.socket]]:
    with ExitStack() as stack:
        tcp, udp, unix = (
            stack.enter_context(socket.socket(family, kind))
            for family, kind in (
                (socket.AF_INET, socket.SOCK_STREAM),
                (socket.AF_INET, socket.SOCK_DGRAM),
                (socket.AF_UNIX, socket.SOCK_STREAM),
            )
        )
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", 0))
        unix.bind(str(path))
        tcp.listen()
        unix.listen()
        yield {"tcp": tcp, "udp": udp, "unix": unix}


@contextmanager
def _victim() -> Iterator[subprocess.Popen[bytes]]:
    victim = subprocess.Popen(["sleep", str(2 * _SECONDS)], stdin=subprocess.DEVNULL)
    try:
        yield victim
    finally:
        victim.kill()
        victim.wait()


def _is_root() -> bool:
    return os.name == "posix" and os.geteuid() == 0


# What follows runs inside.


def _try_all(task: Mapping[str, Any]) -> list[str]:
    """Confine this process, check that it can work, and give the attempts that were no error."""
    scratch = Path(task["scratch"])
    if task["restrict"]:
        landlock.restrict([*bubblewrap.environment(), *_OWN], [scratch], [])
    if task["refuse"]:
        system_calls.refuse_system_calls()
    (scratch / "own").write_text("own")
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    secret = Path(task["secret"])
    here = "127.0.0.1"
    # Whether these come through is seen outside: in a network of one's own, sending is no error.
    unseen: tuple[Callable[[], object], ...] = (
        lambda: secret.write_text("of the student"),
        (secret.parent / "more").touch,
        lambda: socket.create_connection((here, task["tcp"]), timeout=5),
        lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"out", (here, task["udp"])),
        lambda: socket.socket(socket.AF_UNIX).connect(str(secret.parent / "socket")),
    )
    for act in unseen:
        _succeeds(act)
    told: dict[str, Callable[[], object]] = {
        "read": secret.read_text,
        "list": lambda: list(secret.parent.iterdir()),
        "trace": lambda: _trace(task["victim"]),
    }
    managed = [name for name, act in told.items() if _succeeds(act)]
    # Last, since it may work. In bubblewrap, the number may happen to be that of this process or its parent.
    if task["victim"] in (os.getppid(), os.getpid()):
        return managed
    return managed + ["signal"] * _succeeds(lambda: os.kill(task["victim"], signal.SIGKILL))


def _succeeds(act: Callable[[], object]) -> bool:
    try:
        act()
    except OSError:
        return False
    return True


def _trace(process: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    attach, detach = 16, 17  # sys/ptrace.h
    nothing = ctypes.c_void_p(0)
    if libc.ptrace(ctypes.c_long(attach), ctypes.c_long(process), nothing, nothing):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    os.waitpid(process, 0)
    libc.ptrace(ctypes.c_long(detach), ctypes.c_long(process), nothing, nothing)


if __name__ == "__main__":
    print(json.dumps(_try_all(json.loads(sys.argv[1]))))
