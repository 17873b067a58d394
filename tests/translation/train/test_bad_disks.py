"""Full or unreliable disks: training continues, or resumes from intact files, and reports the problem."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from course_lib.errors import ExitCode
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.distributed import SINGLE_PROCESS
from course_lib.translation.train.experiment import train
from course_lib.translation.train.metrics import MetricsLog
from tests.small_disk import small_disk
from tests.translation.real_processes import SECONDS, start_command
from tests.translation.train.same_run import assert_same_run, metrics

pytestmark = pytest.mark.slow

KIB = 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with a capacity of three megabytes."""
    with small_disk(tmp_path / "disk", kilobytes=3 * KIB):
        yield tmp_path / "disk"


def fill(folder: Path) -> Path:
    """Fill the disk completely by extending the file `filler`, and return the file's path."""
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (64 * KIB, KIB, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return filler


def test_a_full_disk_stops_no_training_and_spoils_no_checkpoint(
    config_file: Path, disk: Path, tmp_path: Path
) -> None:
    """The disk is kept full from the first checkpoint on, and has free space again after the run."""
    run, said = disk / "run", tmp_path / "said"
    arguments = [str(config_file), "training.epochs=4", "evaluation.beam_size=1", "evaluation.bleu_every=0"]
    (process,) = start_command(1, [*arguments, f"run_folder={run}"], output=said)
    deadline = time.monotonic() + SECONDS
    while not list(run.glob("checkpoints/*.pt")):
        assert process.is_alive()
        assert time.monotonic() < deadline
    while process.is_alive():
        assert time.monotonic() < deadline
        # Fill it repeatedly, because removing an incomplete file frees space.
        filler = fill(disk)
        process.join(0.01)
    text = said.read_text("utf-8")
    assert (
        "The checkpoint could not be saved (No space left on device). Older files, if any, are kept." in text
    )
    assert "step 28 of 28  epoch 4  validation_loss" in text
    assert text.splitlines()[-1] == (
        f"train: {run}/models/last.pt: the last model could not be saved at the end of training (No space "
        "left on device). Fix this (for example, free some disk space), and run the same command again to "
        "resume from the latest checkpoint."
    )
    assert process.exitcode == ExitCode.BAD_INPUT
    assert "Traceback" not in text

    filler.unlink()
    whole = tmp_path / "whole"
    for folder in (run, whole):
        (process,) = start_command(1, [*arguments, f"run_folder={folder}"])
        process.join(SECONDS)
        assert process.exitcode == 0
    assert_same_run(run, whole)


def test_rows_wait_for_room_and_lose_no_byte(disk: Path) -> None:
    with MetricsLog.open(disk / "metrics.jsonl") as log:
        log.write({"step": 1})
        filler = fill(disk)
        rows = [{"step": step, "text": "x" * 1000} for step in range(2, 20)]
        for row in rows:
            log.write(row)
        with pytest.raises(OSError, match="No space left"):
            log.sync()
        filler.unlink()
        assert log.sync() == (disk / "metrics.jsonl").stat().st_size
    assert metrics(disk) == [{"step": 1}, *rows]


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_damaged_checkpoint_is_left_out_in_one_line(
    tiny_config: Callable[..., RunConfig], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    greedy = ("evaluation.beam_size=1", "evaluation.bleu_every=0")
    train(tiny_config(*greedy, "training.epochs=1"), SINGLE_PROCESS)
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    damaged = bytearray(newest.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    newest.write_bytes(damaged)
    capsys.readouterr()
    train(tiny_config(*greedy), SINGLE_PROCESS)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{newest} is damaged and was skipped."
    assert "resuming after update 6." in said[1]
    train(tiny_config(*greedy, f"run_folder={tmp_path / 'whole'}"), SINGLE_PROCESS)
    assert_same_run(tmp_path / "run", tmp_path / "whole")
