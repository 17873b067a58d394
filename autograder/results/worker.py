"""The functions that run in a worker process. It loads torch and the checks; the parent process does not."""

from pathlib import Path

from autograder.judge.job import Job, Result
from autograder.sandbox.confinement import Confinement
from autograder.sandbox.fork_server import Nursery


def initialize(parent: int, confinement: Confinement) -> None:
    """Start the sandbox of a worker whose parent process is `parent`."""
    # The sandbox takes as long to start as torch takes to import here, so both happen at once.
    nursery = Nursery(confinement)
    nursery.begin()
    from autograder.judge import worker

    worker.prepare(parent, nursery)


def grade(course: Path, job: Job) -> Result:
    """Run and judge one notebook."""
    from autograder.judge import worker

    return worker.grade(course, job)
