"""Data parallelism: each rank trains on its share of the batches, as on the eight GPUs of section 5.2."""

from collections.abc import Sequence
from typing import TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Float, Int
from torch import Tensor

Item = TypeVar("Item")


def shard(batches: Sequence[Item], rank: int, world_size: int) -> Sequence[Item]:
    """Give the process `rank` its share of the batches, so that all processes together have each batch once.

    They are dealt like cards: the first to rank 0, the next to rank 1, round and round. Where their number is
    no multiple of `world_size`, some processes have one more: none is repeated to fill up, none is dropped.
    A new sequence comes back, in the order of the plan; the argument stays as it is.
    """
    return batches[rank::world_size]


def global_token_mean(
    loss_sum: Float[Tensor, ""], token_count: Int[Tensor, ""] | Float[Tensor, ""]
) -> Float[Tensor, ""]:
    """Give the mean loss of a token over all processes, from each process's sum and count.

    The mean of the processes' own means is another number where their counts differ. Sums are added up in
    float64, and the mean has the dtype of `loss_sum`. Without a process group, the process is alone. The
    arguments stay as they are, and no gradient flows.
    """
    totals = torch.stack([loss_sum.detach().double(), token_count.detach().double()])
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(totals)
    return (totals[0] / totals[1]).to(loss_sum.dtype)
