"""The metrics of a run: sums over a window of updates, and the file `metrics.jsonl`."""

import contextlib
import json
import math
import os
import time
from io import FileIO
from pathlib import Path
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from course_lib.translation.distributed import DistributedInfo, global_max, global_sum
from course_lib.translation.model.devices import peak_memory

#: A row of `metrics.jsonl`.
MetricsRow: TypeAlias = dict[str, int | float | str]


class MetricsLog:
    """The file `metrics.jsonl`, with one JSON object per line."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._unwritten = b""

    @classmethod
    def open(cls, path: Path, keep_bytes: int = 0) -> "MetricsLog":
        """Open a log, and truncate an existing file to `keep_bytes`.

        For a resumed run, `keep_bytes` is the file's size at the time of the checkpoint, because later
        updates are repeated.
        """
        file = path.open("ab", buffering=0)
        if file.tell() > keep_bytes:
            file.truncate(keep_bytes)
        return cls(file)

    def write(self, row: MetricsRow) -> None:
        """Append a row, which readers can see immediately. If the disk is full, try again with the next row.

        NaN and infinity, which JSON can't represent, are written as null.
        """
        known = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in row.items()
        }
        self._unwritten += json.dumps(known, allow_nan=False).encode("utf-8") + b"\n"
        with contextlib.suppress(OSError):
            self._write()

    def sync(self) -> int:
        """Flush all rows to disk, and return the size of the file. Raises OSError if the disk is full."""
        self._write()
        os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size

    def _write(self) -> None:
        while self._unwritten:
            # Keep the rest of a line, because `write` may write only a part of it if the disk fills up.
            self._unwritten = self._unwritten[self._file.write(self._unwritten) :]

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class BatchCounts(NamedTuple):
    """The counts of a batch that the metrics need."""

    target_tokens: int
    """The number of labels that are not padding.

    An update's loss is divided by the sum of this number over its batches.
    """
    tokens: int
    """The number of tokens in source and target that are not padding."""
    tokens_with_padding: int
    """The number of elements of both matrices, including padding."""
    flops: float
    """The floating-point operations of all matrix products in a forward and a backward pass."""


class MetricsWindow:
    """Sums of the loss, tokens, padding and operations over the updates since the last row of metrics.

    Each rank adds up its own batches. The sums of all ranks are combined only when a row is due, so that the
    other updates don't wait for communication.
    """

    _NAMES = ("loss_sum", *BatchCounts._fields)

    def __init__(self, distributed: DistributedInfo) -> None:
        self._distributed = distributed
        #: The throughput of matrix products on all ranks' devices, in operations per second; None if unknown.
        self.matmul_rate: float | None = None
        self._sums = torch.zeros(len(self._NAMES), dtype=torch.float64)
        self._losses: list[Tensor] = []
        self._started = time.perf_counter()

    def add(self, loss_sum: Tensor, counts: BatchCounts) -> None:
        """Add the counts and the summed loss of one of this rank's batches."""
        self._losses.append(loss_sum.detach())  # Reading it now would wait for the GPU.
        self._sums[1:] += torch.tensor(counts, dtype=torch.float64)

    def state(self) -> dict[str, float]:
        """Return the sums over all ranks, and the seconds since the clock was started.

        Rank 0 keeps these sums, and the other ranks restart from zero. Must be called on every rank.
        """
        if self._losses:
            self._sums[0] += torch.stack(self._losses).double().sum().cpu()
            self._losses = []
        total = global_sum(self._distributed, self._sums)
        self._sums = total if self._distributed.is_rank_zero else torch.zeros_like(total)
        sums = dict(zip(self._NAMES, total.tolist(), strict=True))
        return {**sums, "seconds": time.perf_counter() - self._started}

    def load(self, state: dict[str, float]) -> None:
        """Restore the state returned by `state()`. Rank 0 gets the sums, and all ranks restore the clock."""
        self._started = time.perf_counter() - state["seconds"]
        if self._distributed.is_rank_zero:
            self._sums = torch.tensor([state[name] for name in self._NAMES], dtype=torch.float64)

    def restart_clock(self) -> None:
        """Restart the clock, so that time without updates doesn't reduce the measured speed."""
        self._started = time.perf_counter()

    def close(self) -> dict[str, float]:
        """Return the loss, speed, padding and memory over all ranks, and begin the next window.

        `mfu`, the model FLOPs utilisation, is the share of the measured matmul rate that the model's own
        matrix products reached. `memory_gib` is the largest peak of any rank so far, as in `peak_memory`.
        Each is omitted if it is unknown. Must be called on every rank.
        """
        sums = self.state()
        self._sums = torch.zeros_like(self._sums)
        self.restart_clock()
        row = {
            "loss": sums["loss_sum"] / sums["target_tokens"],
            "tokens_per_second": round(sums["target_tokens"] / sums["seconds"], 1),
            "padded": round(1 - sums["tokens"] / sums["tokens_with_padding"], 4),
        }
        if self.matmul_rate is not None:
            mfu = sums["flops"] / sums["seconds"] / self.matmul_rate
            # Round to significant digits: a small model on a fast machine would otherwise have an MFU of 0.
            row["mfu"] = float(f"{mfu:.4g}")
        if memory := global_max(self._distributed, peak_memory()):
            row["memory_gib"] = round(memory / 2**30, 3)
        return row
