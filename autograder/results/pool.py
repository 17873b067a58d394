"""The worker processes, as many as there are processors. They run notebooks; the gradebook is not theirs."""

import atexit
import copy
import multiprocessing
import os
import threading
import time
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from autograder.judge.job import Job, Result
from autograder.results.work import grade, prepare
from autograder.sandbox.confinement import Confinement
from course_lib.curriculum.course_file import CourseError

#: How long workers wait for more to do, where grading is a button in Formgrader. In seconds.
_IDLE = 120.0


class Pool:
    """Runs jobs, the first that were begun first, and keeps each result until it is asked for."""

    def __init__(self, course: Path, workers: int, confinement: Confinement) -> None:
        self.course, self.workers, self.confinement = course, workers, confinement
        self._waiting: dict[str, tuple[Job, Future[Result] | None]] = {}
        """None for a job that is to run alone."""
        self._executor: ProcessPoolExecutor | None = None
        self._single: ProcessPoolExecutor | None = None
        self._closing: threading.Timer | None = None
        self._since = time.monotonic()
        atexit.register(self.close)

    def begin(self, jobs: Iterable[Job]) -> None:
        """Start the jobs of a new run, whose results will be asked for."""
        self._waiting, self._since = {}, time.monotonic()
        for job in jobs:
            self._add(job)
        self._close_later()

    def result(self, job: Job) -> Result:
        """Give the result of a job, begun before or not. Raises CourseError where no worker survives it."""
        self._stay()
        self._add(job)
        try:
            while (future := self._waiting[job.digest][1]) is not None:
                try:
                    # A copy: two submissions can be the same, and what is made of their results differs.
                    return copy.deepcopy(future.result())
                except CancelledError:
                    self._again(begun=0)
                except BrokenProcessPool:
                    # As many as the workers can have taken, which they do in order.
                    self._again(begun=2 * self.workers + 1)
            return copy.deepcopy(self._result_alone(job))
        finally:
            self._close_later()

    def _result_alone(self, job: Job) -> Result:
        """Run a job in a worker of its own: if that ends, it was this job, and no other."""
        if self._single is None:
            self._single = self._new_executor(1)
        future = self._single.submit(grade, self.course, job)
        try:
            result = future.result()
        except (BrokenProcessPool, CancelledError):
            self._single = None
            raise CourseError(
                "the process that graded it ended before it was done, twice; is there enough memory for the "
                "workers?"
            ) from None
        self._waiting[job.digest] = job, future
        return result

    @property
    def progress(self) -> str:
        """How many notebooks of this run have been run, and how long the others will take."""
        total = len(self._waiting)
        done = sum(future is not None and future.done() for _, future in self._waiting.values())
        left = (time.monotonic() - self._since) / max(done, 1) * (total - done)
        ahead = f", about {_in_words(left)} left" if done < total else ""
        return f"{done} of {total} notebooks have run{ahead}"

    def close(self) -> None:
        """End the workers."""
        atexit.unregister(self.close)
        self._stay()
        executors, self._executor, self._single = (self._executor, self._single), None, None
        for executor in executors:
            if executor is None:
                continue
            processes = list((executor._processes or {}).values())
            executor.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            for process in processes:
                process.join()

    def _add(self, job: Job) -> None:
        if job.digest not in self._waiting:
            self._waiting[job.digest] = job, self._submit(job)

    def _submit(self, job: Job) -> Future[Result]:
        if self._executor is None:
            self._executor = self._new_executor(self.workers)
        return self._executor.submit(grade, self.course, job)

    def _new_executor(self, workers: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            workers,
            multiprocessing.get_context("spawn"),
            initializer=prepare,
            initargs=(os.getpid(), self.confinement),
        )

    def _again(self, begun: int) -> None:
        """Make new workers, and have them do what was not done.

        Where workers ended, one of the first so many jobs did it. These are left for a worker of their own,
        each alone, so that no other is blamed for it.
        """
        self.close()
        waiting, self._waiting = self._waiting, {}
        for digest, (job, future) in waiting.items():
            done = future and future.done() and not future.cancelled() and future.exception() is None
            if future is None or (not done and begun > 0):
                self._waiting[digest] = job, None
                begun -= future is not None
            else:
                self._waiting[digest] = job, future if done else self._submit(job)

    def _stay(self) -> None:
        if self._closing is not None:
            self._closing.cancel()

    def _close_later(self) -> None:
        self._stay()
        self._closing = threading.Timer(_IDLE, self.close)
        self._closing.daemon = True
        self._closing.start()


def _in_words(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
