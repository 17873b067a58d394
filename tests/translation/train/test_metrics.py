"""The metrics file drops rows that will be repeated, and a window sums over the processes."""

import json
import mmap
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from course_lib.translation.distributed import SINGLE_PROCESS, DistributedInfo
from course_lib.translation.model.devices import peak_memory
from course_lib.translation.train import metrics
from course_lib.translation.train.metrics import BatchCounts, MetricsLog, MetricsWindow
from tests.translation.real_processes import in_processes


def batch(target_tokens: int, tokens: int, tokens_with_padding: int, flops: float = 0.0) -> BatchCounts:
    return BatchCounts(target_tokens, tokens, tokens_with_padding, flops)


def test_rows_after_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with MetricsLog.open(path) as log:
        log.write({"step": 1})
        kept = log.sync()
        log.write({"step": 2})
        assert path.read_text().count("\n") == 2, "readers see each row immediately"
    with path.open("a") as file:
        file.write('{"step": 3, "lo')  # The process was killed in the middle of a row.
    with MetricsLog.open(path, kept) as log:
        log.write({"step": 2, "text": "wörtlich"})
    assert [json.loads(line) for line in path.read_text("utf-8").splitlines()] == [
        {"step": 1},
        {"step": 2, "text": "wörtlich"},
    ]


def test_closing_a_window_returns_means_and_resets_it() -> None:
    window = MetricsWindow(SINGLE_PROCESS)
    window.add(torch.tensor(6.0), batch(target_tokens=2, tokens=5, tokens_with_padding=10))
    window.add(torch.tensor(4.0), batch(target_tokens=3, tokens=10, tokens_with_padding=10))
    row = window.close()
    assert row["loss"] == 2.0
    assert row["padded"] == 0.25
    assert row["tokens_per_second"] > 0
    window.add(torch.tensor(8.0), batch(target_tokens=2, tokens=4, tokens_with_padding=4))
    assert window.close()["loss"] == 4.0


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "time", SimpleNamespace(perf_counter=lambda: 1000.0))


def test_the_clock_counts_updates_only(stopped_clock: None) -> None:
    window = MetricsWindow(SINGLE_PROCESS)
    window.restart_clock()
    window.add(torch.tensor(1.0), batch(1000, 1, 1))
    state = window.state()
    later = MetricsWindow(SINGLE_PROCESS)
    later.load({**state, "seconds": 10.0})
    assert later.close()["tokens_per_second"] == pytest.approx(100)


def test_mfu_is_work_done_over_work_possible(stopped_clock: None) -> None:
    window = MetricsWindow(SINGLE_PROCESS)
    window.add(torch.tensor(1.0), batch(1, 1, 1, flops=3e9))
    state = {**window.state(), "seconds": 10.0}
    window.load(state)
    assert "mfu" not in window.close()
    later = MetricsWindow(SINGLE_PROCESS)
    later.load(state)
    later.matmul_rate = 1e9
    assert later.close()["mfu"] == pytest.approx(0.3)


def test_memory_is_the_most_that_was_held() -> None:
    held, more = peak_memory(), 64 * 2**20
    # Map new memory, because PyTorch could reuse freed memory: as much as has been freed since the peak, and
    # 64 MiB more.
    new = mmap.mmap(-1, held - psutil.Process().memory_info().rss + more)
    block = torch.frombuffer(new, dtype=torch.uint8).fill_(1)
    peak = peak_memory()
    assert peak >= held + more // 2
    del block
    assert peak_memory() >= peak


def two_halves(distributed: DistributedInfo) -> tuple[list[dict[str, float]], float]:
    window = MetricsWindow(distributed)
    window.add(torch.tensor(float(distributed.rank + 1)), batch(1, 2, 4))
    states = [window.state()]
    states.append(window.state())  # A second call must not count anything twice.
    later = MetricsWindow(distributed)
    later.load(states[-1])
    later.add(torch.tensor(10.0), batch(1, 4, 4))
    return states, later.close()["loss"]


@pytest.mark.slow
def test_a_window_sums_over_processes_and_resumes_from_its_state() -> None:
    for states, loss in in_processes(2, two_halves):
        for state in states:
            assert {
                name: state[name] for name in ("loss_sum", "target_tokens", "tokens", "tokens_with_padding")
            } == {
                "loss_sum": 3.0,
                "target_tokens": 2.0,
                "tokens": 4.0,
                "tokens_with_padding": 8.0,
            }
        assert loss == (1 + 2 + 10 + 10) / 4
