"""Several processes that train one model: lesson 12.

`torchrun` starts the processes and numbers them: `rank` is the number, `world_size` how many there are.
Started without it, a run is one process with rank 0, and everything here works the same.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.errors import BadInputError

Item = TypeVar("Item")
Value = TypeVar("Value")


class FirstRefusedError(BadInputError):
    """BadInputError that the first process has met, and tells the user about; raised on the others."""


@dataclass(frozen=True)
class Place:
    """Where a process stands among the processes of a run."""

    rank: int
    world_size: int
    local_rank: int
    """The number on this machine: which of its GPUs to take."""
    local_world_size: int

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes files and speaks to the user."""
        return self.rank == 0


@contextlib.contextmanager
def process_group(patience: timedelta = timedelta(minutes=5)) -> Iterator[Place]:
    """Join the processes that torchrun started, and leave them at the end; alone, there is nothing to join.

    They talk over gloo on CPUs and NCCL on GPUs. Raises BadInputError where the others don't come together
    within `patience`, or the port at which they should meet is taken. An exception from inside ends the
    process without a farewell: over NCCL that would wait for the others, who may be waiting for this one.
    """
    if "WORLD_SIZE" not in os.environ:
        yield Place(rank=0, world_size=1, local_rank=0, local_world_size=1)
        return
    _join(patience)
    yield Place(
        rank=dist.get_rank(),
        world_size=dist.get_world_size(),
        local_rank=int(os.environ["LOCAL_RANK"]),
        local_world_size=int(os.environ["LOCAL_WORLD_SIZE"]),
    )
    dist.destroy_process_group()


#: So long the others wait for what the first one prepares: it may download a corpus and turn it into tokens.
_TO_PREPARE = timedelta(days=1)


class _Preparing:
    """Who waits so long. For all else the group's own limit holds, which is half an hour."""

    group: dist.ProcessGroup | None = None


def _join(patience: timedelta) -> None:
    # Here and not above: a PyTorch that was built without them trains alone all the same.
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    if missing := [name for name in names if not os.environ.get(name)]:
        raise BadInputError(
            f"expected the environment variables that torchrun sets, but {', '.join(missing)} are missing; "
            "start it with torchrun, or without WORLD_SIZE for a single process"
        )
    place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    try:
        # The store by itself first: so patience with those who come late is none with those who hang later.
        store, rank, world_size = next(rendezvous("env://", timeout=patience))
        if os.environ.get("GROUP_WORLD_SIZE") == "1":
            # torchrun keeps its store when it starts the processes again: they must not find the dead ones'
            # addresses. (Nodes count their restarts each by itself; there, `launch` sees to it.)
            store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
            store=store,
            rank=rank,
            world_size=world_size,
        )
        _Preparing.group = dist.new_group(backend="gloo", timeout=_TO_PREPARE)
    except (dist.DistError, ValueError) as error:
        raise BadInputError(
            f"{place}: the processes cannot meet there ({_why_not(error, patience)})"
        ) from None


def _why_not(error: Exception, patience: timedelta) -> str:
    text = str(error)
    if "EADDRINUSE" in text or "address already in use" in text.lower():
        return "the port is in use; choose another one, or start with torchrun --standalone, which finds one"
    if "timed out" in text.lower() or "timeout" in text.lower():
        return (
            f"not all were there within {patience.total_seconds():.0f} seconds; see that every node has been "
            "started, and can reach that address"
        )
    return text.splitlines()[0]


def has_lost_another(error: Exception) -> bool:
    """Whether an error says no more than that another process has gone: that one has the reason."""
    # An error of NCCL's is most often one of this machine, and then its own text is what helps.
    signs = ("gloo/", "ncclRemoteError")
    return isinstance(error, dist.DistNetworkError) or any(sign in str(error) for sign in signs)


def first_then_rest(place: Place, make: Callable[[], Value]) -> Value:
    """Call `make` on the first process, then on all others: what the first prepares, the others find.

    BadInputError on the first is raised on all of them (on the others as FirstRefusedError), so that they end
    together.
    """
    if place.world_size == 1:
        return make()
    refused: list[str | None] = [None]
    if place.is_first:
        try:
            made = make()
        except BadInputError as error:
            dist.broadcast_object_list([str(error)], group=_Preparing.group)
            raise
        dist.broadcast_object_list(refused, group=_Preparing.group)
        return made
    dist.broadcast_object_list(refused, group=_Preparing.group)
    if refused[0] is not None:
        raise FirstRefusedError(refused[0])
    return make()


def first_decides(place: Place, decide: Callable[[], Value]) -> Value:
    """Call `decide` on the first process, and give what it returned on all.

    BadInputError is raised on all, as by `first_then_rest`.
    """
    decided: list[Value] = []

    def ask() -> None:
        if place.is_first:
            decided.append(decide())

    first_then_rest(place, ask)
    if place.world_size > 1:
        answer: list[Value | None] = [decided[0] if place.is_first else None]
        dist.broadcast_object_list(answer)
        decided = answer  # type: ignore[assignment]
    return decided[0]


def raise_on_all(place: Place, message: str) -> NoReturn:
    """Refuse what all processes have found alike: BadInputError on the first, FirstRefusedError elsewhere."""
    raise BadInputError(message) if place.is_first else FirstRefusedError(message)


def refuse_differences(place: Place, facts: Mapping[str, str]) -> None:
    """Raise BadInputError on all processes where they differ in what they are about to train with.

    `facts` holds, by name, a short text of each thing that has to be the same everywhere.
    """
    everywhere = gather(place, [dict(facts)])
    faults = [
        f"process {rank} has {name} {theirs[name]}, process 0 has {here[name]}"
        for here in everywhere[:1]
        for rank, theirs in enumerate(everywhere)
        for name in here
        if theirs.get(name) != here[name]
    ]
    if faults:
        more = f", and {len(faults) - 3} more" if len(faults) > 3 else ""
        message = (
            f"expected the same config and data for all processes, but {'; '.join(faults[:3])}{more}; "
            "give every node the same files and the same command"
        )
        raise_on_all(place, message)


def largest(place: Place, number: int) -> int:
    """Give all processes the largest of their numbers."""
    if place.world_size == 1:
        return number
    # On the CPU, so that nothing waits for a GPU to finish.
    value = torch.tensor(number)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return int(value)


def end_together(place: Place, patience: timedelta = timedelta(seconds=10)) -> None:
    """Wait for the other processes, but not for long, before ending with an error.

    torchrun ends all processes as soon as one has failed; the first one should have spoken by then.
    """
    if place.world_size > 1:
        with contextlib.suppress(RuntimeError):
            # A number on the CPU, and not a barrier: that would be NCCL's where there are GPUs.
            dist.all_reduce(torch.zeros(1), async_op=True).wait(timeout=patience)


def end_process(exit_code: int) -> NoReturn:
    """End this process, so that its exit code is the one given.

    DDP keeps gloo's threads alive after the group is left. One of them that gives back a tensor while Python
    is being taken down aborts the process (torch 2.13, on a busy machine), and a finished run would count as
    failed. So a process that torchrun has started ends without taking Python down.
    """
    if "WORLD_SIZE" not in os.environ:
        sys.exit(exit_code)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # whoever read it has gone
            stream.flush()
    os._exit(exit_code)


def gather(place: Place, items: list[Item]) -> list[Item]:
    """Give every process the items of all processes, those of rank 0 first."""
    if place.world_size == 1:
        return items
    parts: list[list[Item]] = [[] for _ in range(place.world_size)]
    dist.all_gather_object(parts, items)
    return [item for part in parts for item in part]


def global_sum(place: Place, values: Tensor) -> Tensor:
    """Add up a tensor over all processes; the argument stays as it is."""
    total = values.detach().clone()
    if place.world_size > 1:
        dist.all_reduce(total)
    return total
