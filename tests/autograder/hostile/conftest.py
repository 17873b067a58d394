"""All threats are graded in one run, which all of pytest's workers share."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.autograder.hostile.aftermath import Aftermath, play
from tests.autograder.hostile.threat import Threat
from tests.made_once import made_once

Grade = Callable[[str, Sequence[Threat], Mapping[str, str]], Aftermath]

#: Lower limits than for a real class, so that attacks that run into them end sooner. A single process reaches
#: its memory limit well before all processes together reach the total limit, which ends the kernel.
CONFIG = """
c.SandboxedExecute.workers = 3
c.SandboxedExecute.cell_seconds = 5
c.SandboxedExecute.memory_bytes = 2**30
c.SandboxedExecute.total_memory_bytes = 5 * 2**28
"""


@pytest.fixture(scope="session")
def grade_once(tmp_path_factory: pytest.TempPathFactory) -> Grade:
    """Return a function that grades a named run's threats once, with additional environment variables."""

    def grade(name: str, threats: Sequence[Threat], variables: Mapping[str, str]) -> Aftermath:
        def make() -> Aftermath:
            return play(tmp_path_factory.mktemp("hostile"), threats, config=CONFIG, variables=variables)

        return made_once(tmp_path_factory, name, make)

    return grade
