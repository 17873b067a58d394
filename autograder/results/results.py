"""Look up the results of jobs in the result store, and compute and store those that are missing."""

import logging
import time
from concurrent.futures import Future
from functools import partial

from autograder.judge.job import Job, NotComputedError, Result
from autograder.judge.lesson_source import LessonSource
from autograder.results.local_executor import WorkerExecutor
from autograder.results.store import DamagedResultError, ResultStore
from autograder.results.worker import grade


class Results:
    """The results of jobs. An executor computes those that are not stored; equal jobs run once."""

    def __init__(self, store: ResultStore, executor: WorkerExecutor, log: logging.Logger) -> None:
        self._store, self._executor, self._log = store, executor, log
        self._futures: dict[str, Future[Result]] = {}
        self._stored = self._computed = self._expected = 0
        self._since = time.monotonic()
        self._has_warned = False

    @property
    def workers(self) -> int:
        """The number of notebooks that run in parallel."""
        return self._executor.workers

    def expect(self, jobs: int) -> None:
        """Set the total number of jobs, for the progress report."""
        self._expected = jobs

    def request(self, source: LessonSource, job: Job) -> None:
        """Schedule a job whose result will be needed, unless it is already stored or scheduled.

        `source` contains the data about the job's lesson.
        """
        if job.digest in self._futures:
            return
        future: Future[Result] = Future()
        if (result := self._load(job)) is not None:
            self._stored += 1
            future.set_result(result)
        else:
            computed = self._executor.submit(grade, source, job)
            computed.add_done_callback(partial(self._finish, job, future))
        self._futures[job.digest] = future

    def _finish(self, job: Job, future: Future[Result], computed: Future[tuple[bytes, float]]) -> None:
        try:
            body, seconds = computed.result()
            self._save(job, body, seconds)
            self._computed += 1
            future.set_result(Result.from_json(body, seconds))
        except NotComputedError as error:
            future.set_exception(error)
        except BaseException as error:
            reason = f"its notebook could not be run: {type(error).__name__}: {error}"
            future.set_exception(NotComputedError(reason))

    def get(self, source: LessonSource, job: Job) -> Result:
        """Wait for the result of a job, return it, and remove it from memory.

        The job is requested first if necessary. Raises NotComputedError if it can't be run; a later request
        tries again.
        """
        self.request(source, job)
        return self._futures.pop(job.digest).result()

    def is_ready(self, job: Job) -> bool:
        """Return whether a requested job has finished or failed; True if the job was not requested."""
        return job.digest not in self._futures or self._futures[job.digest].done()

    @property
    def progress(self) -> str:
        """A progress report: how many of the notebooks have run, and an estimate of the time left."""
        done = self._stored + self._computed
        total = max(self._expected, done + sum(not future.done() for future in self._futures.values()))
        seconds = (time.monotonic() - self._since) / max(done, 1) * (total - done)
        left = f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
        return f"{done} of {total} notebooks have run" + (f", about {left} left" if done < total else "")

    def _load(self, job: Job) -> Result | None:
        try:
            return self._store.load(job)
        except DamagedResultError as error:
            self._log.warning(
                "The stored result %s is not used: %s. Its notebook is run again.", job.digest, error
            )
        except OSError as error:
            self._warn(f"Stored results cannot be read, so the notebooks are run again: {error}")
        return None

    def _save(self, job: Job, body: bytes, seconds: float) -> None:
        try:
            self._store.save(job, body, seconds)
        except OSError as error:
            self._warn(f"Results cannot be stored, so a later run must compute them again: {error}")

    def _warn(self, message: str) -> None:
        """Log a problem with the store, but only once, because it doesn't affect grades."""
        if not self._has_warned:
            self._log.warning("%s", message)
            self._has_warned = True
