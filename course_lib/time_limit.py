"""Interrupt code that takes too long."""

import ctypes
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import FrameType

#: Seconds between repeated interrupts, for code that catches the first one.
_REPEAT = 0.05

#: Held while `_current_frame` turns garbage collection off, so that no thread saves and later restores the
#: temporary setting of another thread.
_COLLECTION = threading.Lock()

#: The number of seconds by which an import may exceed a limit. An interrupted import leaves a broken module
#: behind, and PyTorch imports some of its parts when they are first used.
_IMPORT_GRACE = 60.0


class OutOfTime(BaseException):
    """The error raised in code that exceeds its time limit.

    The class derives from BaseException, so that `except Exception` doesn't catch it.
    """


def time_limit(seconds: float) -> AbstractContextManager[None]:
    """Raise OutOfTime inside the block if it takes longer than `seconds`. Limits can be nested.

    OutOfTime is raised again and again until the block ends, in case the code catches it. If a limit expires
    during an import, it is extended by up to a minute, because an interrupted import leaves a broken module
    behind. On Linux, time in which the thread is ready to run but has no core doesn't count, so a busy
    machine doesn't change a verdict.

    In the main thread, an alarm signal interrupts even a blocking call such as `time.sleep`. In other
    threads, and on systems without that signal, code is only interrupted between two bytecode instructions.
    """
    can_use_alarm = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
    return _alarm(seconds) if can_use_alarm else _watchdog(seconds)


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    outer_seconds, outer_interval = signal.getitimer(signal.ITIMER_REAL)
    first = min(seconds, outer_seconds) if outer_seconds else seconds
    deadline = _Deadline(first, threading.get_native_id())

    def stop(signal_number: int, frame: FrameType | None) -> None:
        if deadline.has_passed(lambda: frame):
            raise OutOfTime

    outer_handler = signal.getsignal(signal.SIGALRM)
    try:
        try:
            signal.signal(signal.SIGALRM, stop)
            signal.setitimer(signal.ITIMER_REAL, first, _REPEAT)
            yield
        finally:
            # If a signal is pending, this call raises OutOfTime, but it stops the timer first.
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    finally:
        signal.signal(signal.SIGALRM, outer_handler)
        if outer_seconds:
            # There is one timer for the whole process, so an outer limit continues with the time it has left.
            left = outer_seconds - (time.monotonic() - started)
            signal.setitimer(signal.ITIMER_REAL, max(left, 1e-6), outer_interval)


@contextmanager
def _watchdog(seconds: float) -> Iterator[None]:
    watched, done = threading.current_thread(), threading.Event()
    limits = TimeLimits(seconds)

    def has_ended(timeout: float) -> bool:
        # A thread that starts later may get the same identifier, so the watch ends with the watched thread.
        return done.wait(timeout) or not watched.is_alive()

    watchdog = threading.Thread(target=limits.enforce, args=(has_ended,), daemon=True)
    watchdog.start()
    try:
        with limits.in_this_thread():
            yield
    finally:
        done.set()
        watchdog.join()


class TimeLimits:
    """Time limits that end at the same time for several threads, enforced by a thread that waits for them.

    This costs less than calling `time_limit` in each thread, because each call starts a watchdog thread.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._deadlines: dict[int, _Deadline] = {}
        self._lock = threading.Lock()

    @contextmanager
    def in_this_thread(self) -> Iterator[None]:
        """Limit the time of the `with` block. `enforce` raises OutOfTime in it, as `time_limit` would."""
        thread = threading.get_ident()
        deadline = _Deadline(self._end - time.monotonic(), threading.get_native_id())
        try:
            with self._lock:
                self._deadlines[thread] = deadline
            yield
        finally:
            # Begin with an assignment: unlike a call, it can't be interrupted.
            deadline.ended = True
            with self._lock:  # If `enforce` has just seen the old value, its OutOfTime is raised here.
                self._deadlines.pop(thread, None)

    def enforce(self, has_ended: Callable[[float], bool]) -> None:
        """Enforce the limits until `has_ended(timeout)`, which waits at most that long, returns True."""
        timeout = max(self._end - time.monotonic(), 0.0)
        while not has_ended(timeout):
            with self._lock:
                for thread, deadline in self._deadlines.items():
                    if not deadline.ended and deadline.has_passed(partial(_current_frame, thread)):
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(
                            ctypes.c_ulong(thread), ctypes.py_object(OutOfTime)
                        )
            timeout = _REPEAT


class _Deadline:
    """The end of a time limit, which is postponed by imports and by time spent waiting for a core.

    `native_id` is the operating system's id of the thread that has the time limit.
    """

    def __init__(self, seconds: float, native_id: int) -> None:
        self.ended = False
        """Whether the limited code has ended, so that it must not be interrupted."""
        self._seconds = seconds
        self._native_id = native_id
        self._started_ready = _ready_seconds(native_id)
        self._end = time.monotonic() + seconds
        self._last_end = self._end + _IMPORT_GRACE

    def has_passed(self, frame: Callable[[], FrameType | None]) -> bool:
        """Return whether the time limit has expired. `frame` returns the current frame of the thread.

        During an import, an expired limit is restarted, within a grace period of `_IMPORT_GRACE` seconds.
        """
        now = time.monotonic() - (_ready_seconds(self._native_id) - self._started_ready)
        # Allow for a timer that fires a moment early.
        if now < self._end - _REPEAT / 10:
            return False
        if now < self._last_end and _importing(frame()):
            self._end = min(now + self._seconds, self._last_end)
            return False
        return True


def _ready_seconds(native_id: int) -> float:
    """Return how many seconds a thread has waited for a core so far, or 0 if the system doesn't report it.

    `native_id` is the operating system's id of the thread.
    """
    try:
        # A file object would take several times as long, and every request of a check starts a limit.
        file = os.open(f"/proc/self/task/{native_id}/schedstat", os.O_RDONLY)
        try:
            return int(os.read(file, 100).split()[1]) / 1e9
        finally:
            os.close(file)
    except (OSError, ValueError, IndexError):
        return 0.0


def _current_frame(thread: int) -> FrameType | None:
    """Return the current frame of a thread, or None if the thread has ended.

    Garbage collection is disabled during the lookup, because in Python 3.11 `sys._current_frames` can trigger
    it while holding the lock of the list of threads. If a finalizer then lets another thread run, and that
    thread ends, the whole process hangs: https://github.com/python/cpython/issues/106883
    """
    with _COLLECTION:
        enabled = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames().get(thread)
        finally:
            if enabled:
                gc.enable()


def _importing(frame: FrameType | None) -> bool:
    """Return whether a frame or one of its callers belongs to Python's import system."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib._bootstrap"):
            return True
        frame = frame.f_back
    return False
