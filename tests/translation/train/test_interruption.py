"""Signals to a process are recorded during an update, and handled immediately if nothing can be lost."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from course_lib.errors import ExitCode
from course_lib.translation.configs.loader import load_config
from course_lib.translation.distributed import DistributedInfo, lost_peers_reported
from course_lib.translation.train import __main__ as train_command
from course_lib.translation.train.evaluation import Evaluator
from course_lib.translation.train.experiment import train
from course_lib.translation.train.interruption import Interrupted, Interruption
from course_lib.translation.train.trainer import Trainer
from tests.translation.real_processes import CONTEXT, SECONDS, in_processes, start_command
from tests.translation.train.same_run import assert_same_run

pytestmark = pytest.mark.slow

LONG = [
    "training.epochs=100000",
    "training.checkpoint_every=100000",
    "evaluation.bleu_every=0",
]


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, ExitCode.RESTART),
        (signal.SIGUSR1, ExitCode.RESTART),
        (signal.SIGINT, ExitCode.KEYBOARD),
    ],
)
def test_a_signal_ends_at_once_or_is_noted(number: int, code: int) -> None:
    before = signal.getsignal(number)
    with Interruption() as interruption, interruption.deferred():
        send(number)
        assert interruption.requested == number
        with pytest.raises(Interrupted) as noted, interruption.immediate():
            pass
        assert noted.value.exit_code == code
    with Interruption() as interruption, pytest.raises(Interrupted) as stopped:
        send(number)
    assert (stopped.value.exit_code, str(stopped.value)) == (code, signal.Signals(number).name)
    assert signal.getsignal(number) == before


def two_signals() -> None:
    with Interruption() as interruption, interruption.deferred():
        send(signal.SIGTERM)
        send(signal.SIGTERM)
        os._exit(0)


def two_signals_by_a_launcher() -> None:
    os.environ["WORLD_SIZE"] = "2"
    two_signals()


def test_a_second_signal_ends_the_process_and_a_forwarded_one_does_not() -> None:
    codes = []
    for function in (two_signals, two_signals_by_a_launcher):
        process = CONTEXT.Process(target=function)
        process.start()
        process.join(SECONDS)
        codes.append(process.exitcode)
    assert codes == [-signal.SIGTERM, 0]


def wait_for(path: Path, lines: int) -> None:
    deadline = time.monotonic() + SECONDS
    while not path.exists() or path.read_bytes().count(b"\n") < lines:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def told_while_measuring(distributed: DistributedInfo, config_file: str) -> int:
    """Train, send rank 1 a signal before each validation loss is computed, and return the exit code."""
    measure = Evaluator.loss

    def told(evaluator: Evaluator, *arguments: Any) -> float:
        if distributed.rank == 1:
            send(signal.SIGUSR1)
        return measure(evaluator, *arguments)

    with pytest.MonkeyPatch.context() as patch, Interruption() as interruption:
        patch.setattr(Evaluator, "loss", told)
        try:
            train(load_config(config_file, LONG), distributed, interruption)
        except Interrupted as stopped:
            return stopped.exit_code
    return 0


def test_one_of_two_processes_is_told_while_they_measure(config_file: Path) -> None:
    """The signalled process must not leave the other one alone in a collective."""
    assert in_processes(2, told_while_measuring, str(config_file)) == [ExitCode.RESTART, ExitCode.RESTART]


@contextlib.contextmanager
def joined(distributed: DistributedInfo) -> Iterator[DistributedInfo]:
    """A process group that this process has joined."""
    with lost_peers_reported(distributed):
        yield distributed


def told_before_training(distributed: DistributedInfo, config_file: str, told_too: bool) -> int:
    """Run the command, signal rank 1 before the first epoch, and later rank 0 if `told_too`.

    Return the exit code.
    """

    def told(trainer: Trainer) -> None:
        if distributed.rank == 1:
            send(signal.SIGUSR1)

    wait = Interruption.wait

    def told_later(interruption: Interruption, seconds: float) -> None:
        if told_too:
            threading.Timer(0.2, send, [signal.SIGUSR1]).start()
        wait(interruption, seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "measure_machine", told)
        patch.setattr(Interruption, "wait", told_later)
        if not told_too:  # Rank 0 gets no signal, so a short wait is enough.
            patch.setattr(train_command, "_SECONDS_UNTIL_SIGNAL", 0.5)
        patch.setattr(train_command, "process_group", lambda: joined(distributed))
        return train_command.main([config_file, *LONG])


@pytest.mark.parametrize("told_too", [True, False])
def test_one_of_two_processes_is_told_later_than_the_other(config_file: Path, told_too: bool) -> None:
    """Before the first epoch, a signalled process ends immediately; the other waits for its own signal."""
    codes = [ExitCode.RESTART if told_too else ExitCode.FAILED, ExitCode.RESTART]
    assert in_processes(2, told_before_training, str(config_file), told_too) == codes


@pytest.mark.parametrize("number", [signal.SIGUSR1, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_a_signal_to_one_of_two_processes_stops_both_and_the_run_resumes(
    config_file: Path, tmp_path: Path, number: int
) -> None:
    """No regular checkpoint is due, so every checkpoint was saved because of the signal."""
    arguments = [str(config_file), *LONG, "checkpoints.stop_check_every=2", "evaluation.beam_size=1"]
    started = start_command(2, arguments)
    wait_for(tmp_path / "run" / "metrics.jsonl", 1)
    assert started[1].pid is not None
    os.kill(started[1].pid, number)
    for process in started:
        process.join(SECONDS)
    assert [process.exitcode for process in started] == [ExitCode.RESTART, ExitCode.RESTART]

    ends = [argument for argument in arguments if "epochs" not in argument]
    whole = [*ends, f"run_folder={tmp_path / 'whole'}"]
    epochs = 1 + max(int(path.stem.removeprefix("step-")) for path in (tmp_path / "run").rglob("step-*")) // 7
    for command in (ends, whole):
        for process in start_command(2, [*command, f"training.epochs={epochs}"]):
            process.join(SECONDS)
            assert process.exitcode == 0
    assert_same_run(tmp_path / "run", tmp_path / "whole")
