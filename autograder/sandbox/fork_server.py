"""Start the warm process inside the sandbox, and have it fork kernels."""

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.sandbox import bubblewrap
from autograder.sandbox.confinement import Confinement, probe
from autograder.sandbox.inside import LONGEST
from autograder.sandbox.limits import Limits
from course_lib.curriculum.course_file import CourseError

#: How long the nursery may take to import everything, and to answer a command. In seconds.
STARTING, ANSWERING = 120.0, 60.0

#: Of the folders outside, in which sockets lie. The number of the process that made it comes next.
_PREFIX = "course-sandbox-"

_COURSE = Path(__file__).resolve().parents[2]


class NurseryError(CourseError):
    """The sandbox could not be started, or it has ended."""


@dataclass(frozen=True)
class State:
    """How the kernel of a nursery is."""

    running: bool
    ended: int | None
    """Its exit status: negative for the signal that ended it."""
    violations: tuple[str, ...]
    """Which limits it has broken."""


@dataclass
class Nursery:
    """A sandbox with a warm process in it, which has one kernel at a time."""

    confinement: Confinement = field(default_factory=probe)
    _process: subprocess.Popen[bytes] | None = None
    _control: socket.socket | None = None
    _starting: bool = False

    def start(self) -> None:
        """Start it where it is not running, and wait until it is ready. Raises NurseryError."""
        self.begin()
        if self._starting:
            answer = self._receive(STARTING)
            self._starting = False
            if not answer.get("ready"):
                raise NurseryError(f"the sandbox for grading did not start:\n{self.said()}")

    def begin(self) -> None:
        """Start it where it is not running; `start` then waits for it."""
        if self.alive:
            return
        self.close()
        _remove_what_was_left()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")).resolve()
        self.sockets = self.folder / "sockets"
        self.sockets.mkdir()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        scratch = bubblewrap.SCRATCH if self.confinement.bubblewrap else self.folder / "scratch"
        if not self.confinement.bubblewrap:
            scratch.mkdir()
        readable = bubblewrap.environment()
        settings = {
            "control": theirs.fileno(),
            "scratch": str(scratch),
            "readable": [str(path) for path in readable],
            "landlock": self.confinement.landlock_abi > 0,
            "seccomp": self.confinement.seccomp,
        }
        command = [sys.executable, "-m", "autograder.sandbox.inside", json.dumps(settings)]
        if self.confinement.bubblewrap:
            own = (_COURSE / "autograder" / "__init__.py", _COURSE / "autograder" / "sandbox")
            command = bubblewrap.command(command, (*readable, *own), (), self.sockets, Limits().scratch_bytes)
        # Nothing of the grader's environment, such as a password, reaches a kernel.
        environment = {**bubblewrap.VARIABLES, "HOME": str(scratch), "TMPDIR": str(scratch)}
        # Kernels inherit it: they may write to it, and not read what others wrote.
        self._log = (self.folder / "log").open("ab", buffering=0)
        self._process = subprocess.Popen(
            command,
            env=environment,
            cwd="/",
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        theirs.close()
        self._control = ours
        self._starting = True
        atexit.register(self.close)

    @property
    def alive(self) -> bool:
        """Whether the warm process is there."""
        return self._process is not None and self._process.poll() is None

    def launch(
        self,
        connection: Mapping[str, Any],
        judge: socket.socket,
        archives: Sequence[int],
        limits: Limits,
        imports: Sequence[str] = (),
    ) -> None:
        """Fork a kernel that listens on a connection, and answers the judge on a socket.

        `archives` are descriptors of tar files, with the folders `course` (what can be imported) and `work`
        (what lies beside the notebook). `imports` are modules that this kernel and others will import.
        """
        self.start()
        command = {"do": "launch", "connection": dict(connection), "limits": limits.to_json()}
        command["imports"] = list(imports)
        self._ask(command, [judge.fileno(), *archives])

    def state(self) -> State:
        """Ask how the kernel is."""
        if not self.alive:
            return State(False, -signal.SIGKILL, ())
        return self._ask({"do": "poll"})

    def signal(self, number: int) -> None:
        """Send the kernel a signal."""
        if self.alive:
            self._ask({"do": "signal", "signal": number})

    def clear(self) -> State:
        """End the kernel and everything that it has started. Where that fails, the whole sandbox goes."""
        if not self.alive:
            return State(False, -signal.SIGKILL, ())
        try:
            state = self._ask({"do": "kill"})
        except NurseryError:
            self.close()
            return State(False, -signal.SIGKILL, ())
        for left in self.sockets.iterdir():
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
        return state

    def close(self) -> None:
        """End the sandbox."""
        atexit.unregister(self.close)
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            # Without bubblewrap nobody else ends the kernel: its guardian is given the time for it.
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
            self._log.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _ask(self, command: Mapping[str, Any], files: list[int] | None = None) -> State:
        assert self._control is not None
        data = json.dumps(command).encode()
        assert len(data) < LONGEST, "a command to the sandbox is too long"
        try:
            socket.send_fds(self._control, [data], files or [])
        except OSError:
            raise NurseryError(f"the sandbox for grading has ended:\n{self.said()}") from None
        answer = self._receive(ANSWERING)
        return State(answer["running"], answer["ended"], tuple(answer["violations"]))

    def _receive(self, seconds: float) -> dict[str, Any]:
        assert self._control is not None
        self._control.settimeout(seconds)
        try:
            data = self._control.recv(LONGEST)
        except TimeoutError:
            raise NurseryError(f"the sandbox for grading did not answer within {seconds:g} seconds") from None
        except OSError:
            data = b""
        if not data:
            raise NurseryError(f"the sandbox for grading has ended:\n{self.said()}")
        answer: dict[str, Any] = json.loads(data)
        return answer

    def said(self) -> str:
        """Give the end of what the warm process and its kernels wrote to standard output and error."""
        return (self.folder / "log").read_text(errors="replace")[-2000:]


def _remove_what_was_left() -> None:
    """Remove the folders of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)
