"""Real processes with a gloo group between them, as torchrun would start them.

They are forked from a server that has torch imported, so that starting one takes a fraction of a second.
"""

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from course_lib.translation.distributed import Place, process_group

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["course_lib.translation.run"])

SECONDS = 120


def start(
    world_size: int, function: Callable[..., Any], *arguments: Any
) -> list[tuple[BaseProcess, Connection]]:
    """Start `function(place, *arguments)` in each of `world_size` processes."""
    port = _free_port()
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
    """Wait for the processes and give what their functions returned, rank by rank."""
    outcomes = []
    for process, receiver in started:
        assert receiver.poll(SECONDS), f"process {process.pid} gave no result in {SECONDS} seconds"
        good, value = receiver.recv()
        assert good, value
        outcomes.append(value)
    for process, _ in started:
        process.join(SECONDS)
        assert process.exitcode == 0
    return outcomes


def in_processes(world_size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Run `function(place, *arguments)` in processes, and give their results rank by rank."""
    return results(start(world_size, function, *arguments))


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
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(world_size),
        LOCAL_WORLD_SIZE=str(world_size),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    try:
        with process_group() as place:
            assert place == Place(rank, world_size, rank, world_size)
            sender.send((True, function(place, *arguments)))
    except BaseException:
        sender.send((False, traceback.format_exc()))
        raise


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
