"""The profiler for `training.profile`: a trace of updates, a table of operations, and a memory snapshot."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from course_lib.translation.model.devices import uses_gpu

#: Updates before the profile begins: kernels are loaded and layers are compiled during the first ones, and
#: the profiler is warmed up during the last one.
_SKIPPED, _WARMUP = 4, 1


def activities(on_gpu: bool) -> list[ProfilerActivity]:
    """Return the activities that a profiler records: those of the CPU and, with `on_gpu`, of the GPU.

    By default, PyTorch records the work of every visible GPU, so a run on the CPU would occupy one.
    """
    return [ProfilerActivity.CPU, ProfilerActivity.CUDA] if on_gpu else [ProfilerActivity.CPU]


class UpdateProfiler:
    """A profiler of `count` updates of this process, which writes the results to `folder`.

    Open `trace.json` in Perfetto (ui.perfetto.dev) or chrome://tracing, and `memory.pickle`, which is only
    written on a GPU, at pytorch.org/memory_viz. `operations.txt` is a table of the operations that take the
    most time. With a count of 0, nothing is profiled. `report` is called with each message for the user.
    """

    def __init__(self, folder: Path, count: int, report: Callable[[str], None]) -> None:
        self._folder = folder
        self._count = count
        self._report = report
        self._profiler: profile | None = None

    def step(self) -> None:
        """Count an update. If it completes the profile, save the profile."""
        if self._count == 0:
            return
        if self._profiler is None:
            phases = schedule(wait=_SKIPPED, warmup=_WARMUP, active=self._count, repeat=1)
            self._profiler = profile(
                activities=activities(uses_gpu()),
                schedule=phases,
                profile_memory=True,
                on_trace_ready=self._save,
            )
            self._profiler.start()
            if uses_gpu():
                torch.cuda.memory._record_memory_history(max_entries=100_000)
        self._profiler.step()

    def end(self) -> None:
        """Save the profile if it is incomplete. If no update was profiled, report that."""
        if self._count == 0:
            return
        if self._profiler is None or _recorded(self._profiler) <= 0:
            self._report(
                f"training.profile: nothing was profiled, because the first {_SKIPPED + _WARMUP} updates are "
                "skipped and training ended before the next one."
            )
        else:
            self._profiler.stop()

    def _save(self, profiler: profile) -> None:
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
            self._report(f"The profile could not be saved ({error.strerror}).")
        else:
            self._report(f"Profile of {_recorded(profiler)} updates: {self._folder}")
        finally:
            if on_gpu:
                torch.cuda.memory._record_memory_history(enabled=None)


def _recorded(profiler: profile) -> int:
    return profiler.step_num - _SKIPPED - _WARMUP
