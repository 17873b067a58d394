"""All threats are graded in one run, which all of pytest's workers share."""

import os
from collections.abc import Callable, Mapping, Sequence

import pytest
from filelock import FileLock

from tests.autograder.hostile.aftermath import Aftermath, play
from tests.autograder.hostile.threat import Threat

Grade = Callable[[str, Sequence[Threat], Mapping[str, str]], Aftermath]

#: Shorter limits than those of a class, so that attacks which wait for them are over sooner. One process
#: comes to its own limit of memory well before all together come to theirs, which ends the kernel.
CONFIG = """
c.SandboxedExecute.workers = 4
c.SandboxedExecute.cell_seconds = 5
c.SandboxedExecute.memory_bytes = 2**30
c.SandboxedExecute.total_memory_bytes = 5 * 2**28
"""


@pytest.fixture(scope="session")
def grade_once(tmp_path_factory: pytest.TempPathFactory) -> Grade:
    """Grade threats only once, under a name for the run, with additional environment variables."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def grade(name: str, threats: Sequence[Threat], variables: Mapping[str, str]) -> Aftermath:
        done = folder / name / "aftermath.json"
        with FileLock(folder / f"{name}.lock"):
            if not done.exists():
                done.parent.mkdir()
                play(done.parent, threats, config=CONFIG, variables=variables).write(done)
            return Aftermath.read(done)

    return grade
