"""Start the fork server inside the sandbox, and control the kernels that it forks."""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autograder.sandbox import bubblewrap
from autograder.sandbox.confinement import SANDBOX_FILES, Confinement
from autograder.sandbox.inside import MAX_MESSAGE_BYTES, remove
from autograder.sandbox.limits import Limits
from autograder.submissions.reading import printable
from course_lib.curriculum.course_file import CourseError
from course_lib.file_locks import try_lock

#: Timeouts in seconds: for starting the fork server, including its imports, and for answering a command.
START_TIMEOUT, ANSWER_TIMEOUT = 120.0, 60.0

#: The prefix of the names of temporary folders. It is followed by the id of the process that created the
#: folder.
_FOLDER_PREFIX = "course-sandbox-"


class ForkServerError(CourseError):
    """The error raised if the sandbox failed to start, stopped answering, or exited unexpectedly."""


@dataclass(frozen=True)
class KernelState:
    """The state of the kernel that a fork server has forked."""

    ended: int | None
    """The kernel's exit status, negative if a signal ended it; None if it has not ended."""
    violations: tuple[str, ...]
    """A description of each limit that the kernel has exceeded."""
    seconds_without_core: float = 0.0
    """How long the kernel has been ready to run without having a core, in seconds."""


#: The state of a kernel whose fork server has ended.
GONE = KernelState(-signal.SIGKILL, ())


@dataclass
class ForkServer:
    """A sandbox with a process that imports torch once, and then forks kernels, one at a time."""

    confinement: Confinement
    _process: subprocess.Popen[bytes] | None = None
    _control: socket.socket | None = None
    _starting: bool = False
    _last_log: str = ""
    """The end of the log, kept when the sandbox is closed."""

    def start(self) -> None:
        """Start the fork server if it isn't running, and wait until it is ready.

        Raises ForkServerError if that fails.
        """
        self.begin()
        if self._starting:
            answer = self._receive(START_TIMEOUT)
            self._starting = False
            if not answer.get("ready"):
                raise ForkServerError(f"the grading sandbox didn't start:\n{self.log_tail()}")

    def begin(self) -> None:
        """Start the fork server if it isn't running. Unlike `start`, don't wait until it is ready."""
        if self.alive:
            return
        self.close()
        _remove_stale_folders()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-")).resolve()
        # Lock the folder rather than the log: kernels inherit the log, so they could release its lock.
        self._lock = os.open(self.folder, os.O_RDONLY)
        try_lock(self._lock)
        self.sockets = self.folder / "sockets"
        self.sockets.mkdir()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        scratch = bubblewrap.SCRATCH if self.confinement.bubblewrap else self.folder / "scratch"
        if not self.confinement.bubblewrap:
            scratch.mkdir()
        readable = bubblewrap.environment_paths()
        settings = {
            "control": theirs.fileno(),
            "scratch": str(scratch),
            "readable": [str(path) for path in readable],
            "landlock": self.confinement.landlock_abi > 0,
            "seccomp": self.confinement.seccomp,
        }
        command = [sys.executable, "-m", "autograder.sandbox.inside", json.dumps(settings)]
        if self.confinement.bubblewrap:
            readable = (*readable, *SANDBOX_FILES)
            command = bubblewrap.command(command, readable, self.sockets, Limits().scratch_bytes)
        # The grader's environment, which may contain passwords, must not reach a kernel.
        environment = {**bubblewrap.VARIABLES, "HOME": str(scratch), "TMPDIR": str(scratch)}
        # Kernels inherit the log: they can write to it, but not read what others wrote.
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
        """Whether the fork server is running."""
        return self._process is not None and self._process.poll() is None

    def launch(
        self,
        connection: Mapping[str, Any],
        judge: socket.socket,
        archives: Sequence[int],
        limits: Limits,
        imports: Sequence[str] = (),
    ) -> None:
        """Fork a kernel that serves a Jupyter connection, and answers the judge on the socket `judge`.

        Before the fork, the fork server is started if it isn't running, the previous kernel is ended, and
        the modules in `imports` are imported. `archives` are descriptors of tar files with the folders
        `course` (modules that the kernel can import) and `work` (the files next to the notebook). The kernel
        is killed if it exceeds `limits`. Raises ForkServerError if the fork server fails.
        """
        self.start()
        command = {"do": "launch", "connection": dict(connection), "limits": asdict(limits)}
        command["imports"] = list(imports)
        self._ask(command, [judge.fileno(), *archives])

    def state(self) -> KernelState:
        """Return the state of the kernel, or `GONE` if the fork server has ended.

        Raises ForkServerError if the fork server doesn't answer.
        """
        if not self.alive:
            return GONE
        return self._ask({"do": "poll"})

    def signal(self, number: int) -> None:
        """Send the signal `number` to the kernel, if it is running.

        Raises ForkServerError if the fork server doesn't answer.
        """
        if self.alive:
            self._ask({"do": "signal", "signal": number})

    def clear(self) -> KernelState:
        """End the kernel and all processes that it started, delete its files, and return its last state.

        If the fork server doesn't answer, end the whole sandbox. Return `GONE` if the sandbox has ended.
        """
        if not self.alive:
            return GONE
        try:
            state = self._ask({"do": "kill"})
        except ForkServerError:
            self.close()
            return GONE
        for left in self.sockets.iterdir():
            with suppress(OSError):
                remove(left)
        return state

    def close(self) -> None:
        """End the sandbox, and delete its folder."""
        atexit.unregister(self.close)
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            # Without bubblewrap, only the fork server can end the kernel, so give it time to do that.
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
            self._log.close()
            with suppress(OSError):
                self._last_log = self._read_log()
            with suppress(OSError):
                remove(self.folder)
            os.close(self._lock)

    def _ask(self, command: Mapping[str, Any], files: list[int] | None = None) -> KernelState:
        assert self._control is not None
        data = json.dumps(command).encode()
        assert len(data) < MAX_MESSAGE_BYTES, "a command to the fork server is too long"
        try:
            socket.send_fds(self._control, [data], files or [])
        except OSError:
            raise ForkServerError(f"the grading sandbox exited unexpectedly:\n{self.log_tail()}") from None
        answer = self._receive(ANSWER_TIMEOUT)
        return KernelState(answer["ended"], tuple(answer["violations"]), answer["seconds_without_core"])

    def _receive(self, timeout: float) -> dict[str, Any]:
        assert self._control is not None
        self._control.settimeout(timeout)
        try:
            data = self._control.recv(MAX_MESSAGE_BYTES)
        except TimeoutError:
            raise ForkServerError(f"the grading sandbox didn't answer within {timeout:g} seconds") from None
        except OSError:
            data = b""
        if not data:
            raise ForkServerError(f"the grading sandbox exited unexpectedly:\n{self.log_tail()}")
        answer: dict[str, Any] = json.loads(data)
        return answer

    def log_tail(self) -> str:
        """Return the last 2000 characters that the fork server and its kernels wrote to stdout and stderr.

        This also works after the sandbox has been closed.
        """
        return self._last_log if self._process is None else self._read_log()

    def _read_log(self) -> str:
        log = (self.folder / "log").read_text(errors="replace", encoding="utf-8")[-2000:]
        # Students' code can write control characters to the log, and a terminal would interpret them.
        return "\n".join(map(printable, log.splitlines()))


def _remove_stale_folders() -> None:
    """Remove the sandbox folders left behind by processes that were killed.

    A folder is stale if no process has the id in its name and no process has locked it. The id alone isn't
    enough, because containers with separate process ids may share the temporary folder.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*"):
        owner = folder.name.removeprefix(_FOLDER_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with suppress(OSError):  # The folder may belong to another account.
                lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    if try_lock(lock):
                        remove(folder)
                finally:
                    os.close(lock)
