"""Start worker processes, and grade notebooks in them. Only the workers load torch and the checks."""

import ctypes
import faulthandler
import os
import signal
from collections import OrderedDict
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from autograder.judge.job import Job, NotComputedError
from autograder.judge.lesson_source import LessonSource
from autograder.results.local_executor import LocalExecutor
from autograder.results.version import checks_version, installed_version
from autograder.sandbox.confinement import Confinement, probe, require
from autograder.sandbox.fork_server import ForkServer

if TYPE_CHECKING:
    from autograder.judge.lesson_context import LessonContext

_PARENT_DEATH_SIGNAL = 1  # prctl(PR_SET_PDEATHSIG)

#: Seconds that a job may take in addition to three times its notebook's time limit: the notebook may run
#: twice, and wait for a core as long as it may run once.
_EXTRA_SECONDS = 300.0

#: The number of contexts of lessons that a worker keeps prepared.
_LESSONS = 20


class GradingWorker:
    """A warm sandbox, and the lessons for which it has been prepared."""

    def __init__(self, confinement: Confinement) -> None:
        self._fork_server = ForkServer(confinement)
        self._lessons: OrderedDict[tuple[str, frozenset[str]], LessonContext] = OrderedDict()

    def start(self) -> None:
        """Start the sandbox, and import the modules for judging."""
        # Starting the sandbox takes as long as importing torch, so both happen in parallel.
        self._fork_server.begin()
        import torch

        import autograder.judge.notebook_run  # noqa: F401

        installed_version()

        # Don't use the instructor's own IPython profile.
        os.environ["IPYTHONDIR"] = str(self._fork_server.folder / "ipython")
        torch.set_num_threads(1)
        self._fork_server.start()

    def grade(self, source: LessonSource, job: Job) -> tuple[bytes, float]:
        """Run and judge one notebook. Return its serialised result, and the time that it took in seconds.

        Raises NotComputedError if the checks on this machine don't have the version that the job requires, or
        if the notebook can't be run or judged.
        """
        from autograder.judge.notebook_run import run

        if job.version != checks_version(source):
            raise NotComputedError(
                f"this worker ({os.uname().nodename}) and the machine that runs the grading have different "
                "versions of the course, Python or the installed packages, so the worker did not run a "
                f"notebook of {job.lesson}. Install the same versions on both machines, and restart all "
                "grading programs that were started before an update"
            )
        # Every wait in a job has a timeout. If it hangs anyway, end this process: its parent starts another.
        faulthandler.dump_traceback_later(3 * job.limits.notebook_seconds + _EXTRA_SECONDS, exit=True)
        try:
            result = run(job, partial(self._context, source), self._fork_server)
        finally:
            faulthandler.cancel_dump_traceback_later()
        return result.to_json(), result.seconds

    def _context(self, source: LessonSource, available: Collection[str]) -> "LessonContext":
        from autograder.judge.lesson_context import prepare_lesson_context

        key = (source.digest, frozenset(available))
        if key not in self._lessons:
            self._lessons[key] = prepare_lesson_context(source, available)
            if len(self._lessons) > _LESSONS:
                os.close(self._lessons.popitem(last=False)[1].archive)
        self._lessons.move_to_end(key)
        return self._lessons[key]


#: This process's worker: a global variable, because an executor's initializer can't pass it to the jobs.
_worker: GradingWorker | None = None


def initialize(parent: int, confinement: Confinement) -> None:
    """Start this process's worker. From then on, the process is killed when its parent ends.

    `parent` is the parent's process id. The worker's sandbox uses the mechanisms in `confinement`.
    """
    global _worker
    _worker = GradingWorker(confinement)
    _worker.start()
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)  # The parent ended before `prctl` took effect.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent handles an interrupt, and ends its workers.


def start_workers(count: int, allow_unconfined: bool) -> LocalExecutor:
    """Return an executor whose workers have warm sandboxes on this machine.

    Raises CourseError if nothing can confine students' code and `allow_unconfined` is false.
    """
    confinement = probe()
    require(confinement, allow_unconfined)
    return LocalExecutor(count, initialize, (os.getpid(), confinement))


def grade(source: LessonSource, job: Job) -> tuple[bytes, float]:
    """Run and judge one notebook with this process's worker: see `GradingWorker.grade`."""
    assert _worker is not None
    return _worker.grade(source, job)
