"""A run killed with SIGKILL at any moment resumes, and ends like an uninterrupted run."""

import random
import shutil
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.translation.real_processes import SECONDS, start_command
from tests.translation.train.same_run import assert_same_run

pytestmark = pytest.mark.slow

#: Overrides that make a run write everything: snapshots, averages, and a checkpoint every two updates.
OVERRIDES = [
    "training.epochs=3",
    "training.checkpoint_every=2",
    "training.average_last=3",
    "training.average_every=5",
    "evaluation.weights=averaged",
    "evaluation.beam_size=1",
    "evaluation.bleu_every=2",
]


def end(started: list[BaseProcess]) -> list[int | None]:
    for process in started:
        process.join(SECONDS)
    return [process.exitcode for process in started]


def kill(started: list[BaseProcess]) -> None:
    for process in started:
        process.kill()
    end(started)


def leftovers(folder: Path) -> list[Path]:
    return list(folder.rglob(".*.tmp"))


@pytest.mark.parametrize(("world_size", "kills"), [pytest.param(1, 12, marks=pytest.mark.nightly), (2, 3)])
def test_a_run_that_is_killed_again_and_again_ends_as_if_nothing_had_been(
    config_file: Path, tmp_path: Path, world_size: int, kills: int
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    arguments = [str(config_file), *OVERRIDES]
    end(start_command(1, ["--help"]))  # Start the fork server now, so that its start isn't timed.
    begin = time.monotonic()
    assert end(start_command(world_size, [*arguments, f"run_folder={whole}"])) == [0] * world_size
    whole_life = time.monotonic() - begin

    rng = random.Random(2)
    killed_runs = interrupted_writes = 0
    while killed_runs < kills:
        # Half of the kills happen while files are being written, the first of them in a run that has no
        # files yet. The other half happen at a random time.
        at = None if killed_runs % 2 else rng.randrange(1, 25)
        started = start_command(world_size, [*arguments, f"run_folder={killed}"], at)
        if at is None:
            time.sleep(rng.uniform(0, whole_life))
        else:
            started[0].join(SECONDS)
        codes = [process.exitcode for process in started]
        kill(started)
        if codes == [0] * world_size:
            # The run finished before it was killed. The remaining kills need an unfinished run.
            assert_same_run(killed, whole)
            shutil.rmtree(killed)
            continue
        assert codes[0] in (None, 0, -signal.SIGKILL)
        killed_runs += 1
        interrupted_writes += bool(leftovers(killed))
    assert interrupted_writes, "no kill hit a file that was being written"

    assert end(start_command(world_size, [*arguments, f"run_folder={killed}"])) == [0] * world_size
    assert_same_run(killed, whole)
    assert not leftovers(killed)
