"""A worker in its own process, as in a real run, that runs notebooks in a sandbox."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from autograder.judge.job import Cell, Job, Result
from autograder.judge.lesson_source import load_lesson_source
from autograder.release.build import COURSE
from autograder.results.local_executor import LocalExecutor
from autograder.results.version import checks_version
from autograder.results.worker import grade, initialize
from autograder.sandbox.confinement import _probe
from autograder.sandbox.limits import Limits


class Classroom:
    """A worker that runs notebooks of a lesson, and of other lessons on request."""

    def __init__(self, lesson: str, executor: LocalExecutor) -> None:
        self.lesson, self.executor = lesson, executor

    def run(
        self, *sources: str, files: tuple[tuple[str, bytes], ...] = (), lesson: str = "", **limits: float
    ) -> Result:
        """Run cells. Cells that begin with "# judged" are locked, and cells with "# shows" are optional."""
        cells = tuple(
            Cell(f"cell-{place}", source, source.startswith("# judged"), source.startswith("# shows"))
            for place, source in enumerate(sources)
        )
        source = load_lesson_source(COURSE, lesson or self.lesson)
        job = Job(source.name, cells, files, Limits(**limits), version=checks_version(source))
        return Result.from_json(*self.executor.submit(grade, source, job).result())


@contextmanager
def classroom_of(lesson: str, without: tuple[str, ...] = ()) -> Iterator[Classroom]:
    """Start a worker without these mechanisms, or skip the test if the remaining ones can't confine code."""
    confinement = _probe(frozenset(without))
    if not confinement.sufficient:
        pytest.skip(f"nothing here can confine code: {confinement.name}")
    executor = LocalExecutor(1, initialize, (os.getpid(), confinement))
    yield Classroom(lesson, executor)
    executor.shutdown(cancel_futures=True)
