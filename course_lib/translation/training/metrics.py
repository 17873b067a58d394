"""What a run says of itself: a window of updates in numbers, and `metrics.jsonl`."""

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from course_lib.translation.data.device_batch import DeviceBatch
from course_lib.translation.training.distributed import Place, global_sum, largest

#: Keys of a row that say how the machine did, and so differ between two runs that are the same.
MEASURED = frozenset({"tokens_per_second", "mfu", "memory_gib"})


class MetricsLog:
    """`metrics.jsonl`: one JSON object a line.

    A run that starts again hands in how many bytes there were at its checkpoint; what was written after that
    is cut off, since those updates are made again.
    """

    def __init__(self, path: Path, keep_bytes: int = 0) -> None:
        self._file = path.open("ab", buffering=0)
        self._waiting = b""
        if self._file.tell() > keep_bytes:
            self._file.truncate(keep_bytes)

    def write(self, row: dict[str, Any]) -> None:
        """Add a line, and let readers see it at once; where the disk is full, it waits for the next one."""
        self._waiting += json.dumps(row).encode("utf-8") + b"\n"
        with contextlib.suppress(OSError):
            self._write_waiting()

    def position(self) -> int:
        """Say how many bytes there are, once they are safe on the disk. Raises OSError where it is full."""
        self._write_waiting()
        os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size

    def _write_waiting(self) -> None:
        while self._waiting:
            # A disk that fills up takes the first part of a line.
            self._waiting = self._waiting[self._file.write(self._waiting) :]

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class Window:
    """Sums over the updates since the last line of metrics: loss, real tokens, slots in the batches, work.

    Each process adds what it did; the numbers of all processes meet only when a line is due, so that no
    update waits for them.
    """

    _NAMES = ("loss_sum", "target_tokens", "real_slots", "slots", "work")

    def __init__(self, place: Place) -> None:
        self._place = place
        #: Operations a second that all processes' devices reach on matrix products; None where unmeasured.
        self.matrix_rate: float | None = None
        self._sums = torch.zeros(len(self._NAMES), dtype=torch.float64)
        self._losses: list[Tensor] = []
        self._started = time.perf_counter()

    def add(self, loss_sum: Tensor, batch: DeviceBatch) -> None:
        """Count one batch of this process."""
        self._losses.append(loss_sum.detach())  # Not read yet: a GPU would have to finish first.
        counted = [0, batch.target_tokens, batch.real_slots, batch.slots, batch.work]
        self._sums += torch.tensor(counted, dtype=torch.float64)

    def state(self) -> dict[str, float]:
        """Give the sums over all processes, and leave them with the first: together they stay the same."""
        if self._losses:
            self._sums[0] += torch.stack(self._losses).double().sum().cpu()
            self._losses = []
        total = global_sum(self._place, self._sums)
        self._sums = total if self._place.is_first else torch.zeros_like(total)
        sums = dict(zip(self._NAMES, total.tolist(), strict=True))
        return {**sums, "seconds": time.perf_counter() - self._started}

    def restart_clock(self) -> None:
        """Forget the time since the window began: something else than updates took it."""
        self._started = time.perf_counter()

    def load(self, state: dict[str, float]) -> None:
        """Go on from what `state` gave."""
        self._started = time.perf_counter() - state["seconds"]
        if self._place.is_first:
            self._sums = torch.tensor([state[name] for name in self._NAMES], dtype=torch.float64)

    def close(self) -> dict[str, float]:
        """Give loss, speed, padding and memory of the window over all processes, and begin the next one.

        `mfu`, model FLOPs utilisation, is the share of the measured matrix rate that went into the model's
        own matrix products. `memory_gib` is the most that any process has held so far: of its GPU's memory,
        or else of the machine's.
        """
        sums = self.state()
        self._sums = torch.zeros_like(self._sums)
        self._started = time.perf_counter()
        row = {
            "loss": sums["loss_sum"] / sums["target_tokens"],
            "tokens_per_second": round(sums["target_tokens"] / sums["seconds"], 1),
            "padded": round(1 - sums["real_slots"] / sums["slots"], 4),
        }
        if self.matrix_rate is not None:
            row["mfu"] = round(sums["work"] / sums["seconds"] / self.matrix_rate, 4)
        if memory := largest(self._place, peak_memory()):
            row["memory_gib"] = round(memory / 2**30, 3)
        return row


def peak_memory() -> int:
    """Give the bytes that this process has held at most: of its GPU's memory, or else of the machine's.

    0 where the system keeps no record of it, as Windows.
    """
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated()
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux kibibytes
