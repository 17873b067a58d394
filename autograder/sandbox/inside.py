"""The process inside the sandbox that is warm: it has imported what lessons import, and forks kernels.

Started by `autograder.sandbox.fork_server`. It reads commands from a socket, a JSON object each:
`launch` (with the judge's socket and the kernel's files attached), `signal`, `kill`, `poll`. It answers each
with one object. One kernel at a time; whatever a kernel leaves behind is killed with it.
"""

import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import shutil
import signal
import socket
import sys
import tarfile
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.sandbox.limits import Limits

#: What every lesson imports, so that no kernel has to.
WARM = (
    *("torch", "torch.nn", "torch.overrides", "numpy", "jaxtyping", "comm", "IPython.core.pylabtools"),
    *("ipykernel.kernelapp", "ipykernel.ipkernel", "zmq.eventloop.zmqstream", "asyncio", "pyseccomp"),
    *("autograder.sandbox.kernel", "autograder.sandbox.landlock", "autograder.sandbox.system_calls"),
)
#: What is imported besides, where the first use of another module would do it.
ALONG = {"torch.optim": "torch._dynamo"}

#: The longest command, and the longest answer. In bytes.
LONGEST = 100_000

_SUBREAPER = 36  # prctl(PR_SET_CHILD_SUBREAPER): orphans of a kernel become children of this process
_NOT_DUMPABLE = 4  # prctl(PR_SET_DUMPABLE): what a kernel may not read or trace
_WATCH = 0.05  # seconds between two looks at what a kernel uses
_LOOKS_AT_DISK = 10  # at its files only every so many looks: that takes longer


@dataclass
class Warden:
    """Forks kernels, watches what they use, and clears up after them."""

    control: socket.socket
    scratch: Path
    readable: tuple[Path, ...]
    landlock: bool
    seccomp: bool
    kernel: int | None = None
    """The process id of the kernel, while it is not waited for."""
    home: Path | None = None
    ended: int | None = None
    """Its exit status, where it has ended: negative for the signal that ended it."""
    violations: list[str] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    looks: int = 0
    """How often it was looked at what kernels use."""
    base: int = 0
    """The memory that a kernel shares with this process when it is forked, in bytes."""

    def serve(self) -> None:
        """Answer commands until the other side closes."""
        self.control.settimeout(_WATCH)
        while True:
            try:
                data, files, _, _ = socket.recv_fds(self.control, LONGEST, 8)
            except TimeoutError:
                self.watch()
                continue
            if not data:
                break
            self.watch()
            answer = self.obey(json.loads(data), files)
            self.control.send(json.dumps(answer).encode())
        self.kill()

    def obey(self, command: Mapping[str, Any], files: list[int]) -> dict[str, Any]:
        """Do what a command says, and say what became of it."""
        match command["do"]:
            case "launch":
                self.launch(command, *files)
            case "signal" if self.kernel is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.kernel, command["signal"])
            case "kill":
                self.kill()
        return {"running": self.kernel is not None, "ended": self.ended, "violations": self.violations}

    def launch(self, command: Mapping[str, Any], judge: int, *archives: int) -> None:
        """Fork a kernel. `archives` are tar files with what is to lie in its folder."""
        self.kill()
        import_all(command["imports"])
        self.ended, self.violations, self.limits = None, [], Limits.from_json(command["limits"])
        self.home = self.scratch / "kernel"
        self.home.mkdir()
        self.base = _private_memory(os.getpid())
        self.kernel = os.fork()
        if self.kernel:
            for descriptor in (judge, *archives):
                os.close(descriptor)
            return
        # From here on it is the kernel's process, and it never returns.
        code = 70
        try:
            self.control.close()
            become_kernel(self, command, judge, archives)
            code = 0
        except BaseException as error:  # before the kernel can speak: it goes to the nursery's log
            traceback.print_exception(error)
        finally:
            os._exit(code)

    def watch(self) -> None:
        """Wait for children that have ended, and end a kernel that uses more than it may."""
        self._reap()
        family = list(_descendants(os.getpid()))
        if not family:
            return
        self.looks += 1
        memory = sum(max(0, _private_memory(pid) - self.base) for pid in family)
        on_disk = _size(self.scratch) if self.looks % _LOOKS_AT_DISK == 0 else 0
        for what, much, most, unit in (
            ("processes at a time", len(family), self.limits.processes, ""),
            ("memory", memory, self.limits.total_memory_bytes, " bytes"),
            ("disk space", on_disk, self.limits.scratch_bytes, " bytes"),
        ):
            if much > most:
                self.violations.append(f"{what}: {most:,}{unit} are allowed, and more were used")
                self._kill_family()
                return

    def kill(self) -> None:
        """End the kernel and all that it has started, and remove its folder."""
        self._kill_family()
        if self.home is not None:
            # All of the scratch folder: not every mechanism keeps a kernel to its own.
            for left in self.scratch.iterdir():
                _remove(left)
            self.home = None

    def _kill_family(self) -> None:
        deadline = time.monotonic() + 10
        while (family := list(_descendants(os.getpid()))) and time.monotonic() < deadline:
            for pid in family:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
            time.sleep(0.001)
        self._reap()
        if family:
            os._exit(71)  # the nursery then ends the whole sandbox

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self.kernel:
                    self.kernel, self.ended = None, os.waitstatus_to_exitcode(status)


def become_kernel(warden: Warden, command: Mapping[str, Any], judge: int, archives: Sequence[int]) -> None:
    """Turn this process, just forked, into a confined kernel, and serve until it is shut down."""
    from autograder.sandbox.kernel import serve
    from autograder.sandbox.landlock import restrict
    from autograder.sandbox.limits import apply_resource_limits
    from autograder.sandbox.system_calls import refuse_system_calls

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert warden.home is not None
    course, work = warden.home / "course", warden.home / "work"
    # Python before 3.11.4 knows no filters; `pack_files` writes nothing but files by safe names.
    only_data: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    for archive in archives:
        os.lseek(archive, 0, os.SEEK_SET)
        with tarfile.open(fileobj=io.FileIO(archive, "rb")) as files:
            files.extractall(warden.home, **only_data)
    course.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    os.chdir(work)
    os.environ.clear()
    os.environ.update(_environment(work))
    packages = [path for path in sys.path if "lib/python" in path or path.endswith("-packages")]
    sys.path[:] = [str(course), str(work), *packages]
    # What this process has of the course is not for students.
    for name in [name for name in sys.modules if name.split(".")[0] in ("autograder", "course_lib")]:
        del sys.modules[name]
    apply_resource_limits(warden.limits)
    if warden.landlock:
        sockets = Path(command["connection"]["ip"]).parent
        restrict([*warden.readable, course], [work], [sockets])
    serve(
        command["connection"],
        judge,
        work,
        warden.limits.output_bytes,
        ready=refuse_system_calls if warden.seccomp else lambda: None,
    )


def _environment(work: Path) -> dict[str, str]:
    return {
        "HOME": str(work),
        "TMPDIR": str(work),
        "IPYTHONDIR": str(work / ".ipython"),
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "NBGRADER_EXECUTION": "autograde",
    }


def _descendants(root: int) -> Iterator[int]:
    """Give all processes below one."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                stat = Path("/proc", entry, "stat").read_text(errors="replace").rpartition(")")[2].split()
                children.setdefault(int(stat[1]), []).append(int(entry))
    waiting = list(children.get(root, ()))
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children.get(pid, ())


def _private_memory(pid: int) -> int:
    total = 0
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(("RssAnon:", "RssShmem:")):
                total += int(line.split()[1]) * 1024
    return total


def _size(folder: Path) -> int:
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(base, name)).st_blocks * 512
    return total


def _remove(folder: Path) -> None:
    def open_up(function: Any, path: str, _: Any) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)
            os.chmod(path, 0o700)
            function(path)

    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, onerror=open_up)
    else:
        folder.unlink(missing_ok=True)


def import_all(names: Iterable[str]) -> None:
    """Import modules for all kernels to come. What isn't installed is left out."""
    new = [name for name in names if name not in sys.modules]
    for name in (*new, *(ALONG[name] for name in new if name in ALONG)):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if new:
        gc.collect()
        gc.freeze()  # what is never collected is never written to, so kernels share its memory


def main() -> None:
    """Import, say that all is ready, and serve."""
    settings = json.loads(sys.argv[1])
    control = socket.socket(fileno=settings["control"])
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_NOT_DUMPABLE, 0, 0, 0, 0)
    import_all(WARM)
    warden = Warden(
        control,
        Path(settings["scratch"]),
        tuple(map(Path, settings["readable"])),
        settings["landlock"],
        settings["seccomp"],
    )
    control.send(json.dumps({"ready": True}).encode())
    warden.serve()


if __name__ == "__main__":
    main()
