"""An executor that runs jobs in worker processes on this machine, and survives the death of any worker."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

from autograder.judge.job import NotComputedError

P = ParamSpec("P")
T = TypeVar("T")

#: The maximum number of attempts at a call if its worker dies.
_ATTEMPTS = 2


class WorkerDiedError(NotComputedError):
    """The error raised by a call whose worker process died on every attempt."""


class WorkerExecutor(Executor):
    """An executor with a known number of workers, such as `LocalExecutor`.

    With `cancel_futures`, `shutdown` may also abort running calls.
    """

    workers: int


class LocalExecutor(WorkerExecutor):
    """An executor that runs calls in worker processes, in the order of submission.

    Each worker is a pool of one process with a thread that feeds it. So if a worker dies, the call that it
    was running is known: that call is tried again in a new worker, and no other call is affected. Each worker
    process starts with the call `initializer(*initargs)`.
    """

    def __init__(self, workers: int, initializer: Callable[..., object], initargs: tuple[Any, ...]) -> None:
        self.workers = workers
        self._initializer, self._initargs = initializer, initargs
        self._threads = ThreadPoolExecutor(workers)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._workers: list[tuple[ProcessPoolExecutor, Connection]] = []
        self._closed = False

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Schedule a call on the next free worker, and return its future.

        The future raises WorkerDiedError if a worker dies on every attempt.
        """
        return self._threads.submit(lambda: self._run(function, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop the workers.

        Without `cancel_futures`, wait for all submitted calls to finish first, whatever `wait` is. With it,
        cancel the waiting calls and kill the workers, even in the middle of a call.
        With `wait`, no worker process is left when this returns.
        """
        self._threads.shutdown(wait=False, cancel_futures=cancel_futures)
        if not cancel_futures:
            self._threads.shutdown(wait=True)
        with self._lock:
            self._closed = True
            for _, lifeline in self._workers:
                lifeline.close()
        self._threads.shutdown(wait=wait)
        if wait:
            for worker, _ in self._workers:
                worker.shutdown()

    def _run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(_ATTEMPTS):
            worker = getattr(self._local, "worker", None) or self._new_worker()
            try:
                return worker.submit(function, *args, **kwargs).result()
            except BrokenProcessPool:
                self._local.worker = None
        raise WorkerDiedError(
            f"the worker process died {_ATTEMPTS} times while it ran this notebook. Is there enough memory?"
        )

    def _new_worker(self) -> ProcessPoolExecutor:
        worker_end, lifeline = multiprocessing.get_context("spawn").Pipe(duplex=False)
        worker = ProcessPoolExecutor(
            1,
            multiprocessing.get_context("spawn"),
            initializer=_start_worker,
            initargs=(worker_end, self._initializer, *self._initargs),
        )
        with self._lock:
            if self._closed:
                lifeline.close()
                raise CancelledError
            self._workers.append((worker, lifeline))
        self._local.worker = worker
        return worker


class SharedExecutor:
    """An executor shared by several runs in the same process, and closed after `idle_seconds` without a run.

    Formgrader starts a run for each submission that a grader clicks on. Workers take seconds to start, so
    they are kept for the next run. If `idle_seconds` is 0, they stop at the end of each run.
    """

    def __init__(self, idle_seconds: float = 0.0) -> None:
        self._idle_seconds = idle_seconds
        self._key: object = None
        self._executor: WorkerExecutor | None = None
        self._timer: threading.Timer | None = None

    @contextmanager
    def borrow(self, key: object, create: Callable[[], WorkerExecutor]) -> Iterator[WorkerExecutor]:
        """Yield the executor of the previous run if it is still open and had the same `key`.

        Otherwise, close it and yield a new executor, which is created by calling `create`.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self._executor is None or self._key != key:
            self.close()
            self._key, self._executor = key, create()
        try:
            yield self._executor
        finally:
            if self._idle_seconds:
                self._timer = threading.Timer(self._idle_seconds, self.close)
                self._timer.daemon = True
                self._timer.start()
            else:
                self.close()

    def close(self) -> None:
        """Stop the workers, even in the middle of a call."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=True)


def _start_worker(lifeline: Connection, initializer: Callable[..., object], *initargs: object) -> None:
    threading.Thread(target=_die_with, args=(lifeline,), daemon=True).start()
    initializer(*initargs)


def _die_with(lifeline: Connection) -> None:
    """End this process when the other end of the pipe is closed."""
    lifeline.poll(None)
    os._exit(1)
