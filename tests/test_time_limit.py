"""Time limits, alone and nested, in the main thread and in other threads."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from course_lib.time_limit import OutOfTime, time_limit


def in_main_thread(test: Callable[[], None]) -> None:
    test()


def in_another_thread(test: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            test()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def work(seconds: float) -> None:
    """Compute for this many seconds, because a sleep can be interrupted only in the main thread.

    Like a limit, this doesn't count time in which the thread waits for a core.
    """
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def limited_twice(outer: float, inner: float, inner_work: float) -> None:
    """Work for `inner_work` seconds within both limits, then exceed the outer limit."""
    with time_limit(outer):
        with contextlib.suppress(OutOfTime), time_limit(inner):
            work(inner_work)
        work(5)


everywhere = pytest.mark.parametrize("run", [in_main_thread, in_another_thread])


@everywhere
def test_slow_code_is_stopped_and_fast_code_is_not(run: Callable[[Callable[[], None]], None]) -> None:
    def test() -> None:
        with time_limit(5):
            work(0.01)
        with pytest.raises(OutOfTime), time_limit(0.05):
            work(5)

    run(test)


@everywhere
def test_an_outer_limit_holds_after_an_inner_one(run: Callable[[Callable[[], None]], None]) -> None:
    def test() -> None:
        start = time.thread_time()
        with pytest.raises(OutOfTime):
            limited_twice(0.2, 5, 0.01)
        assert time.thread_time() - start < 2

    run(test)


@everywhere
def test_an_outer_limit_holds_inside_a_longer_inner_one(run: Callable[[Callable[[], None]], None]) -> None:
    def test() -> None:
        start = time.thread_time()
        with pytest.raises(OutOfTime), time_limit(0.1), time_limit(5):
            work(5)
        assert time.thread_time() - start < 2

    run(test)


def test_a_stopped_inner_block_leaves_the_outer_limit_running() -> None:
    start = time.thread_time()
    with pytest.raises(OutOfTime):
        limited_twice(0.3, 0.05, 5)
    assert 0.2 < time.thread_time() - start < 2


def test_no_alarm_and_no_handler_are_left() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with time_limit(5), time_limit(5):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_a_signal_that_is_pending_at_the_end_leaves_no_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    set_timer, interrupt = signal.setitimer, [OutOfTime()]

    def set_timer_with_a_pending_signal(which: int, seconds: float, interval: float = 0.0) -> None:
        set_timer(which, seconds, interval)
        if seconds == 0 and interrupt:
            raise interrupt.pop()

    before = signal.getsignal(signal.SIGALRM)
    with time_limit(60):
        outer = signal.getsignal(signal.SIGALRM)
        monkeypatch.setattr(signal, "setitimer", set_timer_with_a_pending_signal)
        with pytest.raises(OutOfTime), time_limit(5):
            pass
        assert signal.getsignal(signal.SIGALRM) is outer
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 5
    assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.slow
@pytest.mark.parametrize("in_thread", [False, True])
def test_an_import_is_not_interrupted_and_does_not_use_up_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_thread: bool
) -> None:
    name = f"slow_to_import_{in_thread}".lower()
    text = "import time\nuntil = time.monotonic() + 1\n"
    text += "while time.monotonic() < until:\n    pass\nfinished = True\n"
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    finished: list[bool] = []

    def run() -> None:
        with contextlib.suppress(OutOfTime), time_limit(0.7):
            finished.append(import_module(name).finished)
            time.sleep(0.01)
            finished.append(True)
            time.sleep(2)
            finished.append(False)

    if in_thread:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    else:
        run()
    # In a thread, a call to sleep isn't interrupted, but the statement after it is not reached.
    assert finished == [True, True]


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/thread-self/schedstat").exists(),
    reason="this kernel doesn't count the time that a thread waits for a core",
)
@pytest.mark.parametrize("run", [in_main_thread, in_another_thread])
def test_waiting_for_a_core_does_not_count(run: Callable[[Callable[[], None]], None]) -> None:
    cores = os.sched_getaffinity(0)
    busy = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); print(flush=True)\nwhile True: pass"

    def compute() -> None:
        os.sched_setaffinity(0, {min(cores)})
        with time_limit(0.8):
            until = time.thread_time() + 0.4
            while time.thread_time() < until:
                pass

    hogs = [
        subprocess.Popen([sys.executable, "-c", busy, str(min(cores))], stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    try:
        for hog in hogs:
            assert hog.stdout is not None
            hog.stdout.readline()
        started = time.monotonic()
        run(compute)
        assert time.monotonic() - started > 1, "the core should be shared with the other processes"
    finally:
        os.sched_setaffinity(0, cores)
        for hog in hogs:
            hog.kill()
            hog.communicate()


LOOKS_AT_FRAMES = """
import faulthandler, gc, threading, time
from course_lib.time_limit import _current_frame

faulthandler.dump_traceback_later(20, exit=True)

class Garbage:
    def __init__(self):
        self.itself = self
    def __del__(self):
        time.sleep(0)  # lets another thread run

def starts_and_ends():
    while not over.is_set():
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

def rests():
    time.sleep(0)

def has_new_frames():
    while not over.is_set():
        rests()

over = threading.Event()
threads = [threading.Thread(target=run) for run in [starts_and_ends, has_new_frames] * 2]
for thread in threads:
    thread.start()
for number in range(5000):
    gc.disable()
    time.sleep(0)
    Garbage()
    gc.set_threshold(gc.get_count()[0] + number % 10)  # collect at one of the next ten allocations
    gc.enable()
    assert _current_frame(threads[-1].ident) is not None
    assert gc.isenabled()
over.set()
"""


def test_the_look_at_a_frame_starts_no_garbage_collection() -> None:
    """A garbage collection while a frame is looked up can hang Python 3.11.

    See https://github.com/python/cpython/issues/106883.
    """
    done = subprocess.run([sys.executable, "-c", LOOKS_AT_FRAMES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_watch_ends_with_its_thread() -> None:
    """A new thread can reuse the ended thread's identifier, and must not be interrupted."""
    before = set(threading.enumerate())

    def abandons_the_limit() -> None:
        limit = time_limit(0.05)
        limit.__enter__()
        kept.append(limit)

    kept: list[contextlib.AbstractContextManager[None]] = []
    thread = threading.Thread(target=abandons_the_limit)
    thread.start()
    thread.join()
    until = time.monotonic() + 10
    while set(threading.enumerate()) - before and time.monotonic() < until:
        time.sleep(0.01)
    assert set(threading.enumerate()) <= before
