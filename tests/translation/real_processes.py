"""Real processes with a gloo group between them, as torchrun would start them.

They are forked from a server that has imported torch, so that starting one takes a fraction of a second.
"""

import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from course_lib.translation.distributed import DistributedInfo, process_group
from tests.free_ports import free_ports

CONTEXT = multiprocessing.get_context("forkserver")
# Preload what an optimiser imports when it is created, because that takes longer than a test's run.
CONTEXT.set_forkserver_preload(["course_lib.translation.train", "torch._dynamo"])

SECONDS = 300


def start(
    world_size: int, function: Callable[..., Any], *arguments: Any
) -> list[tuple[BaseProcess, Connection]]:
    """Start `function(distributed, *arguments)` in processes, each with a connection for its result."""
    [port] = free_ports(1)
    started = []
    for rank in range(world_size):
        receiver, sender = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(
            target=_run, args=(sender, rank, world_size, port, function, arguments), daemon=True
        )
        process.start()
        sender.close()
        started.append((process, receiver))
    return started


def results(started: list[tuple[BaseProcess, Connection]]) -> list[Any]:
    """Wait for the processes, and return the results of their functions in the order of the ranks."""
    outcomes = []
    for process, receiver in started:
        assert receiver.poll(SECONDS), f"process {process.pid} returned no result within {SECONDS} seconds"
        good, value = received(receiver)
        assert good, value
        outcomes.append(value)
    for process, _ in started:
        process.join(SECONDS)
        assert process.exitcode == 0
    return outcomes


def received(receiver: Connection) -> Any:
    """Wait until a process sends a value, and return the value."""
    return pickle.loads(receiver.recv_bytes())


def _send(sender: Connection, value: Any) -> None:
    # `Connection.send` would send tensors as file handles, which the receiver has to fetch from this process.
    # That fails if this process has ended by then.
    sender.send_bytes(pickle.dumps(value))


def in_processes(world_size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Run `function(distributed, *arguments)` in processes, and return the results by rank."""
    return results(start(world_size, function, *arguments))


def start_command(
    world_size: int, arguments: list[str], kill_at: int | None = None, output: Path = Path(os.devnull)
) -> list[BaseProcess]:
    """Start the training command in each of `world_size` processes, which exit with its exit code.

    If `kill_at` is given, the first process kills itself just before the file operation with this number. The
    output of the first process is written to the file `output`.
    """
    [port] = free_ports(1)
    started = []
    for rank in range(world_size):
        mine = kill_at if rank == 0 else None
        process = CONTEXT.Process(
            target=_command, args=(rank, world_size, port, arguments, mine, output), daemon=True
        )
        process.start()
        started.append(process)
    return started


def _command(
    rank: int, world_size: int, port: int, arguments: list[str], kill_at: int | None, output: Path
) -> None:
    from course_lib.translation.train import __main__ as train

    torch.set_num_threads(1)
    if world_size > 1:
        _name_place(rank, world_size, port)
    said = os.open(output if rank == 0 else os.devnull, os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1)
    if output != Path(os.devnull):
        os.dup2(said, 2)
    if kill_at is not None:
        _kill_at_file_operation(kill_at)
    sys.exit(train.main(arguments))


def _kill_at_file_operation(number: int) -> None:
    """Kill this process just before this file operation: a file is renamed after writing, or removed."""
    operations = itertools.count(1)

    def watch(event: str, _: tuple[Any, ...]) -> None:
        if event in ("os.rename", "os.remove") and next(operations) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def _name_place(rank: int, world_size: int, port: int) -> None:
    """Set the environment variables that torchrun would set."""
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(world_size),
        LOCAL_WORLD_SIZE=str(world_size),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )


def kill(started: list[tuple[BaseProcess, Connection]]) -> None:
    """Kill the processes with SIGKILL."""
    for process, _ in started:
        process.kill()
    for process, _ in started:
        process.join(SECONDS)


def _run(
    sender: Connection,
    rank: int,
    world_size: int,
    port: int,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    torch.set_num_threads(1)
    _name_place(rank, world_size, port)
    try:
        with process_group() as distributed:
            assert distributed == DistributedInfo(rank, world_size, rank, world_size)
            _send(sender, (True, function(distributed, *arguments)))
    except BaseException:
        _send(sender, (False, traceback.format_exc()))
        raise
