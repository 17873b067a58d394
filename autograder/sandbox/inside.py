"""The fork server's process inside the sandbox, which imports the lessons' modules once and forks kernels.

`autograder.sandbox.fork_server` starts it. It reads commands from a socket, one JSON object each: `launch`
(with the judge's socket and the kernel's files attached), `signal`, `kill` and `poll`. It answers each
command with one object. There is one kernel at a time, and all processes that it started are killed with it.
"""

import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import signal
import socket
import sys
import tarfile
import time
import traceback
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.sandbox.limits import Limits

#: Modules that every lesson needs, imported once for all kernels.
PRELOADED = (
    *("torch", "torch.nn", "torch.overrides", "numpy", "jaxtyping", "comm", "IPython.core.pylabtools"),
    *("ipykernel.kernelapp", "ipykernel.ipkernel", "zmq.eventloop.zmqstream", "asyncio", "pyseccomp"),
    *("autograder.sandbox.kernel", "autograder.sandbox.landlock", "autograder.sandbox.system_calls"),
    # ipykernel imports its debugger when a kernel starts. When torch first computes a gradient, it imports
    # `symbolic_shapes` and SymPy, which takes longer than most submissions.
    *("ipykernel.debugger", "torch.fx.experimental.symbolic_shapes"),
)
#: Modules that import another module only on first use, mapped to that module.
IMPLICIT_IMPORTS = {"torch.optim": "torch._dynamo"}

#: The maximum length of a command and of an answer, in bytes.
MAX_MESSAGE_BYTES = 100_000

# prctl(PR_SET_CHILD_SUBREAPER): orphaned children of a kernel become children of this process.
_SUBREAPER = 36
_DUMPABLE = 4  # prctl(PR_SET_DUMPABLE): if 0, kernels can't read or trace this process
#: Seconds between two checks of the limits.
_POLL_INTERVAL = 0.05
#: Disk space is checked less often than the other limits, because measuring files takes longer.
_POLLS_PER_DISK_CHECK = 10


@dataclass
class Supervisor:
    """The supervisor of the kernels: it forks them, enforces their limits and cleans up after them."""

    control: socket.socket
    scratch: Path
    readable: tuple[Path, ...]
    landlock: bool
    seccomp: bool
    kernel: int | None = None
    """The process id of the kernel, until it has been reaped."""
    home: Path | None = None
    ended: int | None = None
    """The exit status of the last kernel, if it has ended; negative if a signal ended it."""
    violations: list[str] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    polls: int = 0
    """The number of times that the limits were checked."""
    shared_bytes: int = 0
    """The memory that a kernel shares with this process when it is forked."""

    def serve(self) -> None:
        """Answer commands and enforce the limits until the other side closes the connection.

        Then kill the kernel, even if this fails.
        """
        self.control.settimeout(_POLL_INTERVAL)
        try:
            while True:
                try:
                    data, files, _, _ = socket.recv_fds(self.control, MAX_MESSAGE_BYTES, 8)
                except TimeoutError:
                    self.enforce_limits()
                    continue
                if not data:
                    break
                self.enforce_limits()
                answer = self.execute(json.loads(data), files)
                self.control.send(json.dumps(answer).encode())
        finally:
            self.kill()

    def execute(self, command: Mapping[str, Any], files: list[int]) -> dict[str, Any]:
        """Execute a command, and return the state of the kernel.

        `files` are the descriptors that were sent with the command.
        """
        match command["do"]:
            case "launch":
                self.launch(command, *files)
            case "signal" if self.kernel is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.kernel, command["signal"])
            case "kill":
                self.kill()
        return {
            "ended": self.ended,
            "violations": self.violations,
            "seconds_without_core": 0.0 if self.kernel is None else _seconds_without_core(self.kernel),
        }

    def launch(self, command: Mapping[str, Any], judge: int, *archives: int) -> None:
        """Kill the previous kernel, if there is one, and fork a new one.

        `command` contains the kernel's limits, its Jupyter connection and the modules to import before the
        fork. `judge` is the descriptor of the judge's socket; `archives` are descriptors of tar files with
        the contents of the kernel's folder.
        """
        self.kill()
        import_all(command["imports"])
        self.ended, self.violations, self.limits = None, [], Limits(**command["limits"])
        self.home = self.scratch / "kernel"
        self.home.mkdir()
        self.shared_bytes = _private_memory(os.getpid())
        self.kernel = os.fork()
        if self.kernel:
            for descriptor in (judge, *archives):
                os.close(descriptor)
            return
        # From here on, this is the kernel's process, which must not return to the caller.
        code = 70
        try:
            self.control.close()
            become_kernel(self, command, judge, archives)
            code = 0
        except BaseException as error:  # The kernel isn't running yet, so report to the log.
            traceback.print_exception(error)
        finally:
            os._exit(code)

    def enforce_limits(self) -> None:
        """Reap children that have ended. Kill a kernel that exceeds a limit, and record the violation.

        Only the limits on processes, total memory and disk space are checked here, disk space less often.
        """
        self._reap()
        if self.home is None:
            return
        processes = list(_descendants(os.getpid()))
        if not processes:
            return
        self.polls += 1
        memory = sum(max(0, _private_memory(pid) - self.shared_bytes) for pid in processes)
        on_disk = _size(self.scratch) if self.polls % _POLLS_PER_DISK_CHECK == 0 else 0
        for resource, used, limit, unit in (
            ("simultaneous processes", len(processes), self.limits.processes, ""),
            ("memory", memory, self.limits.total_memory_bytes, " bytes"),
            ("disk space", on_disk, self.limits.scratch_bytes, " bytes"),
        ):
            if used > limit:
                self.violations.append(f"{resource}: used more than the allowed {limit:,}{unit}")
                self._kill_processes()
                return

    def kill(self) -> None:
        """Kill the kernel and all processes that it started, and empty the scratch folder."""
        self._kill_processes()
        if self.home is not None:
            # Empty the whole scratch folder, because not every mechanism restricts a kernel to `home`.
            for left in self.scratch.iterdir():
                remove(left)
            self.home = None

    def _kill_processes(self) -> None:
        deadline = time.monotonic() + 10
        while (processes := list(_descendants(os.getpid()))) and time.monotonic() < deadline:
            for pid in processes:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
            time.sleep(0.001)
        self._reap()
        if processes:
            os._exit(71)  # End the whole sandbox, because a process can't be killed.

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self.kernel:
                    self.kernel, self.ended = None, os.waitstatus_to_exitcode(status)


def become_kernel(
    supervisor: Supervisor, command: Mapping[str, Any], judge: int, archives: Sequence[int]
) -> None:
    """Turn this newly forked process into a confined kernel, and serve requests until it is shut down.

    `command`, `judge` and `archives` are the arguments of `Supervisor.launch`.
    """
    from autograder.sandbox.kernel import serve
    from autograder.sandbox.landlock import restrict
    from autograder.sandbox.limits import apply_resource_limits
    from autograder.sandbox.system_calls import deny_system_calls

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert supervisor.home is not None
    course, work = supervisor.home / "course", supervisor.home / "work"
    # Python before 3.11.4 has no filters. That is safe, because `pack_files` writes only regular files with
    # safe names.
    data_filter: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    for archive in archives:
        os.lseek(archive, 0, os.SEEK_SET)
        with tarfile.open(fileobj=io.FileIO(archive, "rb")) as files:
            files.extractall(supervisor.home, **data_filter)
    course.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    os.chdir(work)
    # Programs that the student starts must find only the lesson's view of the course. The other variables
    # keep their values from `bubblewrap.VARIABLES`.
    del os.environ["PYTHONPATH"]
    os.environ |= {"HOME": str(work), "TMPDIR": str(work), "IPYTHONDIR": str(work / ".ipython")}
    os.environ["NBGRADER_EXECUTION"] = "autograde"
    packages = [path for path in sys.path if "lib/python" in path or path.endswith("-packages")]
    sys.path[:] = [str(course), str(work), *packages]

    def ready() -> None:
        # Student code must import the lesson's view of the course, not the modules of this process.
        for name in [name for name in sys.modules if name.split(".")[0] in ("autograder", "course_lib")]:
            del sys.modules[name]
        if supervisor.seccomp:
            deny_system_calls()

    apply_resource_limits(supervisor.limits)
    if supervisor.landlock:
        sockets = Path(command["connection"]["ip"]).parent
        restrict([*supervisor.readable, course], [work], [sockets])
    serve(command["connection"], judge, work, supervisor.limits.output_bytes, ready)


def _descendants(root: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # `Path.read_text` would take three times as long, and this happens many times per second.
                descriptor = os.open(f"/proc/{entry}/stat", os.O_RDONLY)
                try:
                    stat = os.read(descriptor, 4096).rpartition(b")")[2].split()
                finally:
                    os.close(descriptor)
                children.setdefault(int(stat[1]), []).append(int(entry))
    pending = list(children.get(root, ()))
    while pending:
        pid = pending.pop()
        yield pid
        pending += children.get(pid, ())


def _seconds_without_core(pid: int) -> float:
    """Return how long the main thread of a process has been ready to run without a core, in seconds.

    Return 0 if that can't be read. `course_lib.time_limit` reads the same figure, but is not available in the
    sandbox.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()[1]) / 1e9
    return 0.0


def _private_memory(pid: int) -> int:
    total = 0
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(("RssAnon:", "RssShmem:")):
                total += int(line.split()[1]) * 1024
    return total


def _size(folder: Path) -> int:
    """Return the number of bytes that a folder uses on disk, without folders whose path is too long."""
    total, pending = 0, [str(folder)]
    while pending:
        with contextlib.suppress(OSError):
            for entry in list(os.scandir(pending.pop())):
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
    return total


def remove(path: Path) -> None:
    """Remove a file or a folder, even if its folders are nested deeply or their permissions forbid it.

    Students' code can nest folders too deep for `shutil.rmtree` and for the length of a path, so move each
    inner folder to the top before emptying it. Raises OSError if anything can't be removed.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    path.chmod(0o700)
    while folders := _folders_after_removing_files(path):
        for folder in folders:
            for inner in _folders_after_removing_files(folder):
                inner.rename(path / uuid.uuid4().hex)
            folder.rmdir()
    path.rmdir()


def _folders_after_removing_files(folder: Path) -> list[Path]:
    """Remove all files in a folder. Return the folders in it, after giving the owner all permissions."""
    folders = []
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o700)
            folders.append(folder / entry.name)
        else:
            os.unlink(entry.path)
    return folders


def import_all(names: Iterable[str]) -> None:
    """Import modules, and the modules that IMPLICIT_IMPORTS maps them to, for all future kernels.

    Modules that can't be imported are skipped.
    """
    wanted = [name for given in names for name in (given, IMPLICIT_IMPORTS.get(given, given))]
    new = [name for name in wanted if name not in sys.modules]
    for name in new:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if new:
        gc.collect()
        gc.freeze()  # The collector doesn't write to frozen objects, so kernels can share their memory.


def main() -> None:
    """Run the fork server: import modules, report readiness, and serve commands."""
    settings = json.loads(sys.argv[1])
    control = socket.socket(fileno=settings["control"])
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_DUMPABLE, 0, 0, 0, 0)
    import_all(PRELOADED)
    supervisor = Supervisor(
        control,
        Path(settings["scratch"]),
        tuple(map(Path, settings["readable"])),
        settings["landlock"],
        settings["seccomp"],
    )
    control.send(json.dumps({"ready": True}).encode())
    supervisor.serve()


if __name__ == "__main__":
    main()
