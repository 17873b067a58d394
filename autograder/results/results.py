"""The results of the notebooks of one run, computed ahead of nbgrader's asking for them."""

import copy
import time
from concurrent.futures import Executor, Future
from pathlib import Path

from autograder.judge.job import Job, Result
from autograder.results.worker import grade


class Results:
    """Has jobs computed by an executor. Equal jobs are computed once."""

    def __init__(self, course: Path, executor: Executor) -> None:
        self._course, self._executor = course, executor
        self._futures: dict[str, Future[Result]] = {}
        self._expected = 0
        self._since = time.monotonic()

    def expect(self, jobs: int) -> None:
        """Set the total number of jobs, for the progress report."""
        self._expected = jobs

    def request(self, job: Job) -> Future[Result]:
        """Schedule a job whose result will be needed."""
        if job.digest not in self._futures:
            self._futures[job.digest] = self._executor.submit(grade, self._course, job)
        return self._futures[job.digest]

    def get(self, job: Job) -> Result:
        """Return the result of a job, requested before or not.

        Raises WorkerDiedError if every worker that runs it dies.
        """
        # A copy: two submissions may be equal, and each one's outputs are changed later.
        return copy.deepcopy(self.request(job).result())

    @property
    def progress(self) -> str:
        """The number of notebooks that have run, and an estimate of the time left."""
        done = sum(future.done() for future in self._futures.values())
        total = max(self._expected, len(self._futures))
        seconds = (time.monotonic() - self._since) / max(done, 1) * (total - done)
        left = f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
        return f"{done} of {total} notebooks have run" + (f", about {left} left" if done < total else "")
