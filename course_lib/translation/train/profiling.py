"""The profiler for `training.profile`: a trace of updates, a table of operations, and a memory snapshot."""

from pathlib import Path

import torch
from torch.profiler import profile, schedule

from course_lib.translation.model.devices import uses_gpu

#: Updates before the profile begins: kernels are loaded and layers are compiled during the first ones, and
#: the profiler is warmed up during the last one.
_SKIPPED, _WARMUP = 4, 1


class UpdateProfiler:
    """A profiler of `count` updates of this process, which writes the results to `folder`.

    Open `trace.json` in Perfetto (ui.perfetto.dev) or chrome://tracing, and `memory.pickle`, which is only
    written on a GPU, at pytorch.org/memory_viz. `operations.txt` is a table of the operations that take the
    most time. With a count of 0, nothing is profiled.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._remaining = _SKIPPED + _WARMUP + count if count else 0
        self._count = count
        self._profiler: profile | None = None

    def step(self) -> str | None:
        """Count an update. Return a message for the user if it completes the profile, otherwise None."""
        if not self._remaining:
            return None
        if self._profiler is None:
            self._profiler = self._started()
        self._remaining -= 1
        if self._remaining == 0:
            return self._save(self._profiler, self._count)
        self._profiler.step()
        return None

    def end(self) -> str | None:
        """Save an incomplete profile. Return a message for the user, or None if the profile is complete."""
        recorded, self._remaining = self._count - self._remaining, 0
        if recorded >= self._count:
            return None
        if self._profiler is None or recorded <= 0:
            return (
                f"training.profile: nothing was profiled, because the first {_SKIPPED + _WARMUP} updates are "
                "skipped and training ended before the next one."
            )
        return self._save(self._profiler, recorded)

    def _started(self) -> profile:
        phases = schedule(wait=_SKIPPED, warmup=_WARMUP, active=self._count)
        profiler = profile(schedule=phases, profile_memory=True)
        profiler.start()
        if uses_gpu():
            torch.cuda.memory._record_memory_history(max_entries=100_000)
        return profiler

    def _save(self, profiler: profile, count: int) -> str:
        profiler.stop()
        on_gpu = uses_gpu()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            profiler.export_chrome_trace(str(self._folder / "trace.json"))
            order = "self_device_time_total" if on_gpu else "self_cpu_time_total"
            table = profiler.key_averages().table(sort_by=order, row_limit=40)
            (self._folder / "operations.txt").write_text(table, "utf-8")
            if on_gpu:
                torch.cuda.memory._dump_snapshot(str(self._folder / "memory.pickle"))
        except OSError as error:
            return f"The profile could not be saved ({error.strerror})."
        finally:
            if on_gpu:
                torch.cuda.memory._record_memory_history(enabled=None)
        return f"Profile of {count} updates: {self._folder}"
