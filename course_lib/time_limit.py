"""Stop code that does not come back by itself."""

import ctypes
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: How often the code is told to stop again, where it caught the first time. In seconds.
_AGAIN = 0.05


class OutOfTime(BaseException):
    """The time is up. It is no Exception, so that `except Exception` lets it through."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime inside the `with` when it takes longer.

    In the main thread an alarm does it, which also wakes a sleeping call. Where there is none (another
    thread, another system) the thread is told between two of its own instructions.
    """
    if threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer"):
        with _alarm(seconds):
            yield
    else:
        with _watcher(seconds):
            yield


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def stop(signal_number: int, frame: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _watcher(seconds: float) -> Iterator[None]:
    thread, done = threading.get_ident(), threading.Event()

    def watch() -> None:
        if done.wait(seconds):
            return
        while not done.is_set():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(OutOfTime))
            done.wait(_AGAIN)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
