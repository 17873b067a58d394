"""Several processes that train one model: lesson 12.

`torchrun` starts the processes and numbers them: `rank` is the number, `world_size` how many there are.
Started without it, a run is one process with rank 0, and everything here works the same.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.translation.errors import BadInputError

Item = TypeVar("Item")
Value = TypeVar("Value")


def shard(batches: Sequence[Item], rank: int, world_size: int) -> Sequence[Item]:
    """Give the process `rank` its share of the batches, so that all processes together have each batch once.

    They are dealt like cards. Where their number is no multiple of `world_size`, some processes have one
    more: none is repeated to fill up.
    """
    return batches[rank::world_size]


def global_token_mean(
    loss_sum: Float[Tensor, ""], token_count: Int[Tensor, ""] | Float[Tensor, ""]
) -> Float[Tensor, ""]:
    """Give the mean loss of a token over all processes, from each process's sum and count.

    The mean of the processes' own means is another number where their counts differ. Without a process group,
    the process is alone. The arguments stay as they are, and no gradient flows.
    """
    totals = torch.stack([loss_sum.detach().double(), token_count.detach().double()])
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(totals)
    return (totals[0] / totals[1]).to(loss_sum.dtype)


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
def process_group() -> Iterator[Place]:
    """Join the processes that torchrun started, and leave them at the end; alone, there is nothing to join.

    They talk over gloo on CPUs and NCCL on GPUs.
    """
    if "WORLD_SIZE" not in os.environ:
        yield Place(rank=0, world_size=1, local_rank=0, local_world_size=1)
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield Place(
            rank=dist.get_rank(),
            world_size=dist.get_world_size(),
            local_rank=int(os.environ["LOCAL_RANK"]),
            local_world_size=int(os.environ["LOCAL_WORLD_SIZE"]),
        )
    finally:
        dist.destroy_process_group()


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
            dist.broadcast_object_list([str(error)])
            raise
        dist.broadcast_object_list(refused)
        return made
    dist.broadcast_object_list(refused)
    if refused[0] is not None:
        raise FirstRefusedError(refused[0])
    return make()


def end_together(place: Place, patience: timedelta = timedelta(seconds=10)) -> None:
    """Wait for the other processes, but not for long, before ending with an error.

    torchrun ends all processes as soon as one has failed; the first one should have spoken by then.
    """
    if place.world_size > 1:
        with contextlib.suppress(RuntimeError):
            # A number on the CPU, and not a barrier: that would be NCCL's where there are GPUs.
            dist.all_reduce(torch.zeros(1), async_op=True).wait(timeout=patience)


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
