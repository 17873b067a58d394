"""The functions that run in a worker process. It loads torch and the checks; the parent process does not."""

import ctypes
import faulthandler
import os
import signal
from pathlib import Path

from autograder.judge.job import Job, Result
from autograder.sandbox.confinement import Confinement
from autograder.sandbox.fork_server import ForkServer

_PARENT_DEATH_SIGNAL = 1  # prctl(PR_SET_PDEATHSIG)

#: Seconds that a job may take in addition to twice the limit of its notebook.
_EXTRA_SECONDS = 300.0

#: The sandbox of this worker process. An executor's initializer has no other way to pass it to the jobs.
_fork_server: ForkServer | None = None


def initialize(parent: int, confinement: Confinement) -> None:
    """Start the sandbox of a worker whose parent process is `parent`."""
    global _fork_server
    # The sandbox takes as long to start as torch takes to import here, so both happen at once.
    _fork_server = ForkServer(confinement)
    _fork_server.begin()
    import torch

    import autograder.judge.notebook_run  # noqa: F401

    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)  # The parent has already ended.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent handles an interrupt, and ends its workers.
    os.environ["IPYTHONDIR"] = str(_fork_server.folder / "ipython")  # not the instructor's own
    torch.set_num_threads(1)
    _fork_server.start()


def grade(course: Path, job: Job) -> Result:
    """Run and judge one notebook."""
    from autograder.judge.lesson_context import load_lesson_context
    from autograder.judge.notebook_run import run

    assert _fork_server is not None
    # Every wait has a timeout. As a last resort, end this process; its parent then starts another.
    faulthandler.dump_traceback_later(2 * job.limits.notebook_seconds + _EXTRA_SECONDS, exit=True)
    try:
        return run(job, load_lesson_context(course, job.lesson), _fork_server)
    finally:
        faulthandler.cancel_dump_traceback_later()
