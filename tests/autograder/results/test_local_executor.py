"""Worker processes: each job gets its own result, and a worker that dies is replaced."""

import gc
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.judge.job import Cell, Job, NotComputedError, Result
from autograder.judge.lesson_source import load_lesson_source
from autograder.release.build import COURSE
from autograder.results.local_executor import (
    LocalExecutor,
    SharedExecutor,
    WorkerExecutor,
)
from autograder.results.results import Results
from autograder.results.store import ResultStore
from autograder.results.version import checks_version
from autograder.results.worker import initialize
from autograder.sandbox.confinement import probe
from autograder.sandbox.limits import Limits
from tests.autograder.results.worker_calls import die, fail, nothing, succeed_if_there_is, value_or_death

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="submissions are graded on Linux"),
    pytest.mark.sandbox,
]


SOURCE = load_lesson_source(COURSE, "an-assignment-of-ones-own")
VERSION = checks_version(SOURCE)


def job(source: str) -> Job:
    return Job(
        "an-assignment-of-ones-own", (Cell("only", source, False, False),), (), Limits(), version=VERSION
    )


def text(result) -> str:
    return result.outputs[0][0].text


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    if not probe().sufficient:
        pytest.skip("nothing here can confine code")
    with closing(LocalExecutor(2, initialize, (os.getpid(), probe()))) as made:
        yield made


@pytest.fixture
def results(executor: LocalExecutor, tmp_path: Path) -> Results:
    return Results(ResultStore(tmp_path / "store"), executor, logging.getLogger())


def closing(executor: LocalExecutor) -> AbstractContextManager[LocalExecutor]:
    """Close an executor at the end of the block, without waiting for its jobs."""
    stack = ExitStack()
    stack.callback(executor.shutdown, cancel_futures=True)

    @contextmanager
    def context() -> Iterator[LocalExecutor]:
        with stack:
            yield executor

    return context()


def test_each_job_gets_its_own_result_in_any_order(results: Results) -> None:
    jobs = [job(f"print({number})") for number in range(5)]
    results.expect(6)
    for each in jobs:
        results.request(SOURCE, each)
    assert [text(results.get(SOURCE, each)) for each in reversed(jobs)] == [
        f"{number}\n" for number in (4, 3, 2, 1, 0)
    ]
    assert results.progress.startswith("5 of 6 notebooks have run, about ")
    assert text(results.get(SOURCE, job("print('not requested before')"))) == "not requested before\n"
    assert results.progress == "6 of 6 notebooks have run"


def test_a_result_is_a_copy(results: Results) -> None:
    results.get(SOURCE, job("print(1)")).outputs[0].clear()
    assert text(results.get(SOURCE, job("print(1)"))) == "1\n"


def test_a_failed_job_is_tried_again(tmp_path: Path) -> None:
    class FailsOnce(WorkerExecutor):
        workers = 1
        attempts = 0

        def submit(self, *_: object, **__: object) -> Future[Any]:  # type: ignore[override]
            self.attempts += 1
            future: Future[Any] = Future()
            if self.attempts == 1:
                raise RuntimeError("there is no worker")
            if self.attempts == 2:
                future.set_exception(NotComputedError("the machine was too busy"))
            else:
                future.set_result((Result([]).to_json(), 1.0))
            return future

    results = Results(ResultStore(tmp_path), FailsOnce(), logging.getLogger())
    for error in (RuntimeError, NotComputedError):
        with pytest.raises(error):
            results.get(SOURCE, job("1"))
    assert results.get(SOURCE, job("1")).outputs == []


def test_the_digest_of_a_job_says_all_that_matters() -> None:
    one = job("1")
    others = [
        job("2"),
        replace(one, lesson="another"),
        replace(one, files=(("a.txt", b"x"),)),
        replace(one, limits=Limits(cell_seconds=1)),
        replace(one, version="another"),
        job("1\ud800"),
    ]
    assert len({each.digest for each in (one, *others)}) == 7
    assert one.digest == job("1").digest


def test_a_worker_that_dies_is_replaced(results: Results) -> None:
    jobs = [job(f"import time\ntime.sleep(0.3)\nprint({number})") for number in range(4)]
    for each in jobs:
        results.request(SOURCE, each)
    results.get(SOURCE, jobs[0])
    for process in multiprocessing.active_children():
        process.kill()
    assert [text(results.get(SOURCE, each)) for each in jobs] == [f"{number}\n" for number in range(4)]


OWNER = """
import multiprocessing, os, sys, time
from pathlib import Path
from autograder.results.local_executor import LocalExecutor
from autograder.results.version import checks_version
from autograder.results.worker import grade, initialize
from autograder.judge.job import Cell, Job, NotComputedError, Result
from autograder.judge.lesson_source import load_lesson_source
from autograder.sandbox.confinement import probe
from autograder.sandbox.limits import Limits
if __name__ == "__main__":
    executor = LocalExecutor(1, initialize, (os.getpid(), probe()))
    source = load_lesson_source(Path(sys.argv[1]), "an-assignment")
    cells = (Cell("only", "1", False, False),)
    job = Job("an-assignment", cells, (), Limits(), version=checks_version(source))
    executor.submit(grade, source, job).result()
    print(*[process.pid for process in multiprocessing.active_children()], flush=True)
    time.sleep(600)
"""


def test_workers_and_sandboxes_end_with_their_owner(tmp_path: Path) -> None:
    if not probe().sufficient:
        pytest.skip("nothing here can confine code")
    script = tmp_path / "owner.py"
    script.write_text(OWNER)
    owner = subprocess.Popen([sys.executable, script, COURSE], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    worker = int(owner.stdout.readline())
    children = [
        int(each)
        for each in Path(f"/proc/{worker}/task/{worker}/children").read_text(encoding="utf-8").split()
    ]
    assert children
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    deadline = time.monotonic() + 30
    while any(_lives(pid) for pid in (worker, *children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in (worker, *children) if _lives(pid)] == []


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_owns_the_gradebook_needs_no_torch() -> None:
    code = "import sys, autograder.nbgrader.sandboxed_execute; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, check=False).returncode == 0


def test_no_other_job_is_blamed_for_one_that_kills_its_worker() -> None:
    values = [-1 if number == 3 else number for number in range(12)]
    with closing(LocalExecutor(2, nothing, ())) as executor:
        futures = [executor.submit(value_or_death, value) for value in values]
        for value, future in zip(values, futures, strict=True):
            if value < 0:
                with pytest.raises(NotComputedError, match="died 2 times"):
                    future.result()
            else:
                assert future.result() == value


@pytest.mark.parametrize(("start", "reason"), [(fail, "bubblewrap has"), (die, "the process died before")])
def test_a_worker_that_does_not_start_says_why(start: Callable[[], None], reason: str) -> None:
    with closing(LocalExecutor(1, start, ())) as executor:
        futures = [executor.submit(value_or_death, 1) for _ in range(6)]
        for future in futures:
            with pytest.raises(NotComputedError, match=f"no worker process could be started: {reason}"):
                future.result()


def test_workers_start_again_when_the_problem_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autograder.results.local_executor.RETRY_SECONDS", 0.2)
    with closing(LocalExecutor(1, succeed_if_there_is, (tmp_path / "file",))) as executor:
        for _ in range(4):
            with pytest.raises(NotComputedError, match="No such file"):
                executor.submit(value_or_death, 1).result()
        (tmp_path / "file").touch()
        time.sleep(0.2)
        assert executor.submit(value_or_death, 1).result() == 1


@pytest.mark.nightly
def test_workers_that_died_leave_no_open_files() -> None:
    with closing(LocalExecutor(1, nothing, ())) as executor:
        counts = []
        for _ in range(4):
            with pytest.raises(NotComputedError):
                executor.submit(value_or_death, -1).result()
            executor.submit(value_or_death, 1).result()
            gc.collect()
            counts.append(len(os.listdir("/proc/self/fd")))
    assert counts[-1] <= counts[0]


def test_shutting_down_stops_a_running_job() -> None:
    others = set(multiprocessing.active_children())
    executor = LocalExecutor(1, nothing, ())
    executor.submit(value_or_death, 1).result()
    running, waiting = (executor.submit(time.sleep, 600) for _ in range(2))
    while not running.running():
        time.sleep(0.01)
    executor.shutdown(cancel_futures=True)
    assert waiting.cancelled()
    with pytest.raises(CancelledError):
        running.result()
    assert set(multiprocessing.active_children()) <= others


def test_a_shared_executor_serves_several_runs_and_closes_when_idle() -> None:
    others = set(multiprocessing.active_children())
    shared = SharedExecutor(idle_seconds=0.5)
    made = []

    def create() -> LocalExecutor:
        made.append(LocalExecutor(1, nothing, ()))
        return made[-1]

    for key, count in (("a", 1), ("a", 1), ("b", 2)):
        with shared.borrow(key, create) as executor:
            assert executor.submit(value_or_death, 5).result() == 5
        assert len(made) == count
    deadline = time.monotonic() + 20
    while set(multiprocessing.active_children()) - others and time.monotonic() < deadline:
        time.sleep(0.05)
    assert set(multiprocessing.active_children()) <= others
