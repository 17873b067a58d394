"""What the gradebook's process sends to its workers. They load torch and the checks; it does not."""

from pathlib import Path

from autograder.judge.job import Job, Result
from autograder.sandbox.confinement import Confinement
from autograder.sandbox.fork_server import Nursery


def prepare(owner: int, confinement: Confinement) -> None:
    """Make this process a worker of the process `owner`."""
    # The sandbox takes as long to start as the import of torch here: both at once.
    nursery = Nursery(confinement)
    nursery.begin()
    from autograder.judge import worker

    worker.prepare(owner, nursery)


def grade(course: Path, job: Job) -> Result:
    """Run and judge one notebook."""
    from autograder.judge import worker

    return worker.grade(course, job)
