"""How much a submission may use, and the part of it that the operating system enforces."""

import ctypes
import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_KIB, _MIB, _GIB = 2**10, 2**20, 2**30


@dataclass(frozen=True)
class Limits:
    """What one submission may use. All are positive; times are in seconds, sizes in bytes."""

    cell_seconds: float = 60.0
    """Wall time of one cell, and of one request of the judge."""
    notebook_seconds: float = 600.0
    """Wall time of a whole notebook, all restarts of its kernel included."""
    cpu_seconds: int = 900
    """Processor time of a kernel, all its threads together; a process that it starts has as much again."""
    memory_bytes: int = 4 * _GIB
    """Memory of one process."""
    total_memory_bytes: int = 5 * _GIB
    """Memory of all processes together, without what they share with the process they were forked from."""
    processes: int = 64
    """Processes at a time."""
    file_bytes: int = 64 * _MIB
    """The longest file that can be written."""
    scratch_bytes: int = 256 * _MIB
    """All that lies in the folder it may write to."""
    output_bytes: int = _MIB
    """What a cell may print and show."""
    reply_bytes: int = 64 * _MIB
    """What may come back from one request of the judge."""
    restarts: int = 5
    """How often a kernel that has died is started again."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            numbers = (int, float) if field.type is float else (int,)
            if isinstance(value, bool) or not isinstance(value, numbers) or not 0 < value < 2**63:
                kind = "a positive number" if field.type is float else "a positive whole number"
                raise ValueError(f"the limit {field.name} has to be {kind}, and is {value!r}")

    def to_json(self) -> dict[str, float]:
        """Give all limits by name."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Limits":
        """Read limits by name; those that are not given have their usual value. Raises ValueError."""
        known = [field.name for field in dataclasses.fields(cls)]
        if unknown := sorted(set(values) - set(known)):
            raise ValueError(f"there is no limit {', '.join(unknown)}; the limits are {', '.join(known)}")
        return cls(**values)


#: Descriptors a process may have open.
_OPEN_FILES = 256
#: Linux counts threads where it limits processes. A kernel has about eight.
_THREADS_PER_PROCESS = 4
#: Seconds from the signal that says so to the end of a process that is out of processor time.
_GRACE = 5


def apply_resource_limits(limits: Limits) -> None:
    """Have the operating system enforce what it can, on this process and on all that it starts. For good.

    Capabilities are given up as well: with them, root could raise the limits again. Call it while the process
    has one thread. Raises OSError.
    """
    import resource

    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
    _lower(resource.RLIMIT_FSIZE, limits.file_bytes)
    _lower(resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + _GRACE)
    _lower(resource.RLIMIT_DATA, limits.memory_bytes)
    # Shared memory is no data to Linux. What is mapped already, mostly libraries, is not counted again.
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _lower(resource.RLIMIT_AS, mapped + limits.memory_bytes)
    if _own_user_namespace():
        # Elsewhere everything that the user runs would count.
        _lower(resource.RLIMIT_NPROC, limits.processes * _THREADS_PER_PROCESS)
    _give_up_capabilities()


def _lower(which: int, soft: int, hard: int | None = None) -> None:
    import resource

    hard = soft if hard is None else hard
    ceiling = resource.getrlimit(which)[1]
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(which, (soft, hard))


def _own_user_namespace() -> bool:
    try:
        return Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]
    except OSError:
        return False


_CAPABILITIES_V3 = 0x20080522  # linux/capability.h: the form with two words for each of the three sets


def _give_up_capabilities() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc.capset(header, nothing):
        error = ctypes.get_errno()
        raise OSError(error, f"the capabilities of the kernel could not be given up: {os.strerror(error)}")
