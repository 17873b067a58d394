"""The resource limits of a submission. The operating system, the fork server and the judge enforce them."""

import ctypes
import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

_MIB, _GIB = 2**20, 2**30


@dataclass(frozen=True)
class Limits:
    """The resource limits of one submission. Times are in seconds, and sizes in bytes.

    Wall time doesn't include time in which the kernel is ready to run but has no core. Raises ValueError if a
    limit has the wrong type or isn't positive.
    """

    cell_seconds: float = 60.0
    """Wall time of a cell. A request from the judge has a separate time limit."""
    notebook_seconds: float = 600.0
    """Wall time of a notebook, including all restarts of its kernel."""
    cpu_seconds: int = 900
    """CPU time of a kernel, summed over its threads. The limit applies separately to each child process."""
    memory_bytes: int = 4 * _GIB
    """Memory of one process."""
    total_memory_bytes: int = 5 * _GIB
    """Memory of all processes together, not counting memory shared with the fork server."""
    processes: int = 64
    """Number of simultaneous processes."""
    file_bytes: int = 64 * _MIB
    """Size of any file that the code writes."""
    scratch_bytes: int = 256 * _MIB
    """Total size of the writable folder."""
    output_bytes: int = _MIB
    """Size of a cell's output."""
    reply_bytes: int = 64 * _MIB
    """Size of the response to a request from the judge."""
    restarts: int = 5
    """Number of times that a notebook's kernel may be restarted after it has ended."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            numbers = (int, float) if field.type is float else (int,)
            if isinstance(value, bool) or not isinstance(value, numbers) or not 0 < value < 2**63:
                kind = "a positive number" if field.type is float else "a positive whole number"
                raise ValueError(f"limit {field.name}: expected {kind}, got {value!r}")


#: The number of file descriptors that a process may have open.
_OPEN_FILES = 256
#: The number of threads allowed for each process on average, because Linux counts threads against the limit
#: on processes. A kernel has about eight.
_THREADS_PER_PROCESS = 4
#: Seconds between SIGXCPU and SIGKILL for a process that exceeds its CPU time.
_GRACE_SECONDS = 5


def apply_resource_limits(limits: Limits) -> None:
    """Irrevocably apply the resource limits that Linux can enforce to this process and its children.

    Also drops the capabilities that would let root raise the limits again. Must be called while the process
    has a single thread. Raises OSError if a limit can't be set or the capabilities can't be dropped.
    """
    import resource

    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
    _lower(resource.RLIMIT_FSIZE, limits.file_bytes)
    _lower(resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + _GRACE_SECONDS)
    _lower(resource.RLIMIT_DATA, limits.memory_bytes)
    # RLIMIT_DATA excludes shared memory, so limit all mappings, too. The existing ones, mostly libraries,
    # don't count towards this limit.
    mapped = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
    _lower(resource.RLIMIT_AS, mapped + limits.memory_bytes)
    if _in_user_namespace():
        # Set this only in a user namespace: elsewhere, all processes of the user would count.
        _lower(resource.RLIMIT_NPROC, limits.processes * _THREADS_PER_PROCESS)
    _drop_capabilities()


def _lower(which: int, soft: int, hard: int | None = None) -> None:
    import resource

    hard = soft if hard is None else hard
    ceiling = resource.getrlimit(which)[1]
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(which, (soft, hard))


def _in_user_namespace() -> bool:
    try:
        return Path("/proc/self/uid_map").read_text(encoding="utf-8").split() != ["0", "0", "4294967295"]
    except OSError:
        return False


_CAPABILITY_VERSION_3 = 0x20080522  # linux/capability.h: two words for each of the three sets


def _drop_capabilities() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    if libc.capset(header, none):
        error = ctypes.get_errno()
        raise OSError(error, f"dropping the capabilities of the process failed: {os.strerror(error)}")
