"""An executor that runs jobs in worker processes on this machine, and survives the death of any worker."""

import multiprocessing
import os
import threading
import time
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

#: If this many workers in a row fail to start, no worker is started for the next RETRY_SECONDS.
_MAX_FAILED_STARTS = 3
RETRY_SECONDS = 60.0


class WorkerExecutor(Executor):
    """An executor with a known number of workers, such as `LocalExecutor`.

    With `cancel_futures`, `shutdown` may also abort running calls.
    """

    workers: int


class LocalExecutor(WorkerExecutor):
    """An executor that runs calls in worker processes, in the order of submission.

    Each worker is a pool of one process with a thread that feeds it. So if a worker dies, the call that it
    was running is known: that call is retried in a new worker, and no other call is affected. Each worker
    process starts with the call `initializer(*initargs)`. If that fails in several workers in a row, calls
    fail immediately for a minute, before another start is attempted.
    """

    def __init__(self, workers: int, initializer: Callable[..., None], initargs: tuple[Any, ...]) -> None:
        self.workers = workers
        self._initializer, self._initargs = initializer, initargs
        self._threads = ThreadPoolExecutor(workers)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._workers: dict[ProcessPoolExecutor, Connection] = {}
        self._closed = False
        self._start_problem, self._retry_at = "", 0.0
        self._failed_starts = 0
        """The number of workers that have failed to start since the last successful start."""

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Schedule a call on the next free worker, and return its future.

        The future raises NotComputedError if a worker dies on every attempt, or if workers don't start.
        """
        return self._threads.submit(lambda: self._run(function, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop the workers.

        Without `cancel_futures`, wait for all submitted calls to finish first, regardless of `wait`. With
        `cancel_futures`, cancel the waiting calls and kill the workers, even in the middle of a call. With
        `wait`, no worker process is left when this returns.
        """
        self._threads.shutdown(wait=not cancel_futures, cancel_futures=cancel_futures)
        with self._lock:
            self._closed = True
            for lifeline in self._workers.values():
                lifeline.close()
        self._threads.shutdown(wait=wait)
        if wait:
            for worker in self._workers:
                worker.shutdown()

    def _run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(_ATTEMPTS):
            try:
                if getattr(self._local, "worker", None) is None:
                    self._start_worker()
                result: T = self._local.worker.submit(function, *args, **kwargs).result()
                return result
            except BrokenProcessPool:
                self._discard_worker()
        raise NotComputedError(
            f"the worker process died {_ATTEMPTS} times while it ran this notebook. Check that the machine "
            "has enough memory"
        )

    def _start_worker(self) -> None:
        """Start this thread's worker.

        Raises NotComputedError if its initializer fails or ends the process, or if starts are suspended after
        several failures, and CancelledError after `shutdown`.
        """
        spawn = multiprocessing.get_context("spawn")
        worker_end, lifeline = spawn.Pipe(duplex=False)
        worker = ProcessPoolExecutor(1, spawn, initializer=_end_with, initargs=(worker_end,))
        with self._lock:
            wait = self._failed_starts >= _MAX_FAILED_STARTS and time.monotonic() < self._retry_at
            if self._closed or wait:
                lifeline.close()
                raise CancelledError if self._closed else NotComputedError(self._start_problem)
            self._workers[worker] = lifeline
        self._local.worker = worker
        try:
            worker.submit(self._initializer, *self._initargs).result()
        except Exception as error:
            self._discard_worker()
            died = isinstance(error, BrokenProcessPool)
            with self._lock:
                if self._closed and died:  # `shutdown` has killed the worker.
                    raise CancelledError from None
                self._failed_starts += 1
                self._retry_at = time.monotonic() + RETRY_SECONDS
                reason = "the process died before it was ready. It may lack memory" if died else error
                self._start_problem = f"no worker process could be started: {reason}"
            raise NotComputedError(self._start_problem) from None
        with self._lock:
            self._failed_starts = 0

    def _discard_worker(self) -> None:
        """Release the pipes and other resources of this thread's worker after it died or failed to start.

        When this returns, the worker's process has ended.
        """
        worker, self._local.worker = self._local.worker, None
        with self._lock:
            lifeline = self._workers.pop(worker)
        lifeline.close()
        worker.shutdown()


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


def _end_with(lifeline: Connection) -> None:
    """End this process when the other end of the pipe is closed."""

    def wait() -> None:
        lifeline.poll(None)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
