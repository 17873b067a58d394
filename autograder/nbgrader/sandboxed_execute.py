"""A replacement for nbgrader's Execute that runs and judges notebooks in sandboxes, several in parallel."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import joblib
from nbformat import NotebookNode
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Float, Integer, Unicode

from autograder.graded_notebooks.record import GradingRecord
from autograder.graded_notebooks.verdicts import is_check
from autograder.judge.job import Cell, Job, Result
from autograder.judge.lesson_source import LessonSource, ReleasedCell, load_lesson_source
from autograder.results.local_executor import SharedExecutor, WorkerExecutor
from autograder.results.results import Results
from autograder.results.store import ResultStore
from autograder.results.version import checks_version, installed_version
from autograder.results.worker import start_workers
from autograder.sandbox.limits import Limits

#: The environment variable with the folder of the result store, and the default folder in the course.
STORE, STORE_FOLDER = "COURSE_RESULTS", "autograder/result_store"

#: The environment variable with the address of a cluster.
CLUSTER = "COURSE_CLUSTER"

_DEFAULTS = Limits()


class SandboxedExecute(NbGraderPreprocessor):
    """A preprocessor that inserts the outputs of a notebook's cells, which run in a worker process."""

    course = Unicode(help="The folder of the course").tag(config=True)
    result_store = Unicode(
        help="The folder of the result store; by default $COURSE_RESULTS, or autograder/result_store"
    ).tag(config=True)
    workers = Integer(0, help="The number of notebooks that run in parallel; 0 for one per processor").tag(
        config=True
    )
    allow_unconfined = Bool(
        False,
        help="Whether to run code that this machine cannot confine. Only for code that you trust.",
    ).tag(config=True)
    cell_seconds = Float(_DEFAULTS.cell_seconds, help="The time limit of a cell, in seconds").tag(config=True)
    notebook_seconds = Float(_DEFAULTS.notebook_seconds, help="The time limit of a notebook, in seconds").tag(
        config=True
    )
    memory_bytes = Integer(_DEFAULTS.memory_bytes, help="The memory limit of a process, in bytes").tag(
        config=True
    )
    total_memory_bytes = Integer(
        _DEFAULTS.total_memory_bytes,
        help="The memory limit of all processes of a notebook together, in bytes",
    ).tag(config=True)
    processes = Integer(_DEFAULTS.processes, help="The limit on a notebook's processes").tag(config=True)
    output_bytes = Integer(_DEFAULTS.output_bytes, help="The limit on the output of a cell, in bytes").tag(
        config=True
    )

    cluster = Unicode(
        help="The address of a Dask scheduler whose workers run the notebooks; by default $COURSE_CLUSTER"
    ).tag(config=True)
    allow_plain_tcp = Bool(
        False, help="Whether to use a cluster without TLS, in a network that only graders can reach"
    ).tag(config=True)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.finished: Mapping[str, tuple[Job, Result]] = {}
        """The jobs and results of the submission that nbgrader processes next, by notebook."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Write the result of a notebook, which must be in `finished`, and its record into the notebook."""
        job, result = self.finished[resources["nbgrader"]["notebook"]]
        insert_outputs(nb, result)
        repaired = GradingRecord.of(nb)
        # Grading can be marked as complete here: nbgrader writes the file only after the last preprocessor.
        GradingRecord(
            complete=True,
            handed_in=repaired.handed_in,
            depends_on=job.depends_on,
            mechanism=result.mechanism,
            repairs=repaired.repairs,
            tampering=[*repaired.tampering, *result.warnings],
            violations=result.violations,
            findings=result.findings,
        ).write(nb)
        return nb, resources

    @contextmanager
    def running(self, shared: SharedExecutor) -> Iterator[Results]:
        """Yield the results of notebooks, which run in worker processes or on a cluster inside this context.

        The executor is borrowed from `shared`. Raises CourseError if the cluster can't be used, or if nothing
        can confine students' code and `allow_unconfined` is false.
        """
        address = self.cluster or os.environ.get(CLUSTER, "")
        # Compute and cache the version now: if the files are updated later, this process keeps its old code.
        installed_version()
        with shared.borrow((address, self.worker_count), partial(self._create_executor, address)) as executor:
            yield Results(self.store, executor, self.log)

    @property
    def store(self) -> ResultStore:
        """The result store, which contains the results of earlier runs."""
        folder = self.result_store or os.environ.get(STORE) or Path(self.course, STORE_FOLDER)
        return ResultStore(Path(folder), CourseDirectory(parent=self).groupshared)

    def _create_executor(self, address: str) -> WorkerExecutor:
        if address:
            from autograder.results.cluster import connect

            return connect(address, self.allow_unconfined, self.allow_plain_tcp, self.log)
        return start_workers(self.worker_count, self.allow_unconfined)

    @property
    def worker_count(self) -> int:
        """The number of worker processes on this machine: by default, one per processor."""
        return self.workers or joblib.cpu_count()

    def source(self, lesson: str) -> LessonSource:
        """Return the parts of the course folder that the judge needs for a lesson."""
        return load_lesson_source(Path(self.course), lesson)

    def job(self, lesson: str, nb: NotebookNode, files: Mapping[str, bytes]) -> Job:
        """Return the job that runs a repaired notebook of a lesson.

        `files` contains the files next to the notebook, keyed by path.
        """
        source = self.source(lesson)
        released = {cell.id: cell for cell in source.cells}
        unknown = ReleasedCell("", "")
        cells = tuple(
            Cell(
                id=str(cell.metadata.get("nbgrader", {}).get("grade_id") or cell.get("id", index)),
                source=cell.source,
                judged=is_check(cell),
                # Cells that draw pictures can take a long time, or need code that the sandbox lacks. So they
                # stay optional even if a student has changed them.
                optional="see" in released.get(cell.get("id"), unknown).tags
                and not cell.metadata.get("nbgrader"),
                released=cell.get("id") in released and released[cell.id].source == cell.source,
            )
            for index, cell in enumerate(nb.cells)
            if cell.cell_type == "code"
        )
        limits = Limits(
            **{
                limit.name: getattr(self, limit.name)
                for limit in fields(Limits)
                if self.has_trait(limit.name)
            }
        )
        version = checks_version(source)
        if self.allow_unconfined:
            version += " allow_unconfined"  # A grader who requires confinement must not get these results.
        return Job(lesson, cells, tuple(sorted(files.items())), limits, version)


def insert_outputs(notebook: NotebookNode, result: Result) -> None:
    """Write a result's outputs, and execution counts, into the code cells of the notebook that was run."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, (cell, outputs) in enumerate(zip(cells, result.outputs, strict=True), start=1):
        cell.outputs, cell.execution_count = outputs, number
