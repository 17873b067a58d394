"""The lesson's sbatch script on a real SLURM: preempted, requeued, and finished as if uninterrupted."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from course_lib.translation.train.prepare_data import main as prepare_command
from tests.translation.real_processes import SECONDS, start_command
from tests.translation.real_slurm import Slurm, real_slurm, why_not
from tests.translation.train.same_run import assert_same_run

SCRIPT = Path(__file__).parents[2] / "solutions" / "13-final-lab" / "train.sbatch"

pytestmark = [pytest.mark.skipif(bool(why_not()), reason=str(why_not())), pytest.mark.slurm]


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    """A running SLURM with two idle nodes."""
    with real_slurm() as running:
        yield running


def submit(slurm: Slurm, folder: Path, nodes: int, gpus: int, *arguments: str, **environment: str) -> str:
    """Submit the script with `gpus` GPUs on each node, and return the job's number."""
    return slurm.command(
        "sbatch",
        "--parsable",
        "--cpus-per-task=1",
        f"--gpus-per-node={gpus}",
        f"--nodes={nodes}",
        f"--chdir={folder}",
        f"--output={folder / 'log'}",
        str(SCRIPT),
        *arguments,
        PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        PYTHONPATH=str(SCRIPT.parents[2]),
        OMP_NUM_THREADS="1",
        **environment,
    )


def wait_for_text(slurm: Slurm, job: str, log: Path, text: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not log.exists() or text not in log.read_text("utf-8"):
        gave_up = slurm.state(job) == "FAILED" or time.monotonic() > deadline
        assert not gave_up, f"{text!r} is not in the log: {log.read_text('utf-8')}"
        time.sleep(0.1)


@pytest.mark.parametrize(("nodes", "per_node"), [pytest.param(1, 2, marks=pytest.mark.nightly), (2, 1)])
def test_a_preempted_job_goes_back_to_the_queue_and_ends_as_one_that_was_not(
    slurm: Slurm, config_file: Path, tmp_path: Path, nodes: int, per_node: int
) -> None:
    log = tmp_path / "log"
    arguments = [str(config_file), "training.epochs=12", "evaluation.bleu_every=0", "evaluation.beam_size=1"]
    arguments += ["training.checkpoint_every=100000", "checkpoints.stop_check_every=2"]
    prepared, disk = tmp_path / "prepared", tmp_path / "disk"
    assert prepare_command([str(config_file), str(prepared)]) == 0
    # Enough files that both nodes, which share a disk here, are certain to copy at the same time.
    (prepared / "more").mkdir()
    for number in range(2000):
        (prepared / "more" / str(number)).touch()
    job = submit(slurm, tmp_path, nodes, per_node, *arguments, PREPARED=str(prepared), TMPDIR=str(disk))
    wait_for_text(slurm, job, log, "step 4 ")
    # SLURM does this by itself two minutes before the end: it signals every process of the job's steps.
    slurm.command("scancel", "--signal=USR1", job)
    wait_for_text(slurm, job, log, "the job returns to the queue")
    assert not (tmp_path / "run" / "translations.txt").exists(), "the run was not stopped early"
    assert list(disk.glob("course-data-*")) == []
    # Create the files that a node leaves behind if it loses power while copying.
    for left in ("train.ids", "data/train.ids", "data/more"):
        (disk / f"course-data-{job}" / left).mkdir(parents=True)
    slurm.start_now(job)
    slurm.wait_for(job, "COMPLETED")
    assert list(disk.glob("course-data-*")) == []

    said = log.read_text("utf-8")
    assert said.count("2 processes; starting.") == 1
    assert said.count("2 processes; resuming after update") == 1
    assert "Stopped by SIGUSR1. Run the same command again to resume from the latest checkpoint." in said
    for process in start_command(2, [*arguments, f"run_folder={tmp_path / 'whole'}"]):
        process.join(SECONDS)
        assert process.exitcode == 0
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_a_copy_that_fails_leaves_nothing_on_the_nodes(
    slurm: Slurm, config_file: Path, tmp_path: Path
) -> None:
    prepared, disk = tmp_path / "prepared", tmp_path / "disk"
    (prepared / "copied.txt").parent.mkdir()
    (prepared / "copied.txt").write_text("data")
    (prepared / "lost.txt").symlink_to(tmp_path / "missing")
    job = submit(slurm, tmp_path, 1, 1, str(config_file), PREPARED=str(prepared), TMPDIR=str(disk))
    slurm.wait_for(job, "FAILED")
    assert f"{prepared} could not be copied to {disk}/course-data-{job}" in (tmp_path / "log").read_text(
        "utf-8"
    )
    assert list(disk.iterdir()) == []
