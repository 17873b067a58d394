"""What a run says of itself: a window of updates in numbers, and `metrics.jsonl`."""

import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from course_lib.translation.distributed import Place, global_sum


class MetricsLog:
    """`metrics.jsonl`: one JSON object a line.

    A run that starts again hands in how many bytes there were at its checkpoint; what was written after that
    is cut off, since those updates are made again.
    """

    def __init__(self, path: Path, keep_bytes: int = 0) -> None:
        self._file = path.open("ab")
        if self._file.tell() > keep_bytes:
            self._file.truncate(keep_bytes)

    def write(self, row: dict[str, Any]) -> None:
        """Add a line, and let readers see it at once."""
        self._file.write(json.dumps(row).encode("utf-8") + b"\n")
        self._file.flush()

    def position(self) -> int:
        """Say how many bytes there are, once they are safe on the disk."""
        os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class Window:
    """Sums over the updates since the last line of metrics: loss, real tokens, places in the batches.

    Each process adds what it did; the numbers of all processes meet only when a line is due, so that no
    update waits for them.
    """

    _NAMES = ("loss_sum", "target_tokens", "real_places", "places")

    def __init__(self, place: Place) -> None:
        self._place = place
        self._sums = torch.zeros(len(self._NAMES), dtype=torch.float64)
        self._losses: list[Tensor] = []
        self._started = time.perf_counter()

    def add(self, loss_sum: Tensor, target_tokens: int, real_places: int, places: int) -> None:
        """Count one batch of this process."""
        self._losses.append(loss_sum.detach())  # Not read yet: a GPU would have to finish first.
        self._sums += torch.tensor([0, target_tokens, real_places, places], dtype=torch.float64)

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
        """Give loss, speed and padding of the window over all processes, and begin the next one."""
        sums = self.state()
        self._sums = torch.zeros_like(self._sums)
        self._started = time.perf_counter()
        return {
            "loss": sums["loss_sum"] / sums["target_tokens"],
            "tokens_per_second": round(sums["target_tokens"] / sums["seconds"], 1),
            "padded": round(1 - sums["real_places"] / sums["places"], 4),
        }
