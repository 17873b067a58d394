"""Data parallelism: each rank trains on its share of the batches, as on the eight GPUs of section 5.2."""

from collections.abc import Sequence
from typing import TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Float, Int
from torch import Tensor

Item = TypeVar("Item")


def shard(batches: Sequence[Item], rank: int, world_size: int) -> Sequence[Item]:
    """Return the batches of one rank. Every batch belongs to exactly one rank.

    Batches are assigned in turn: the first to rank 0, the next to rank 1, and so on. If their number is not a
    multiple of `world_size`, some ranks have one more; no batch is repeated or dropped. The result is a new
    sequence in the same order.
    """
    return batches[rank::world_size]


def global_token_mean(
    loss_sum: Float[Tensor, ""] | float, token_count: Int[Tensor, ""] | Float[Tensor, ""] | int
) -> Float[Tensor, ""]:
    """Return the mean loss per token over all ranks, from this rank's sum and count.

    The mean of the ranks' means would be wrong if the ranks have different counts. Sums are added in float64,
    and the result has the dtype of `loss_sum`. Both arguments may also be plain numbers. Without a process
    group, this process counts as the only rank. The arguments are not modified, and no gradient flows through
    the result.
    """
    if not isinstance(loss_sum, Tensor):
        loss_sum = torch.tensor(float(loss_sum))
    token_count = torch.as_tensor(token_count, device=loss_sum.device)
    totals = torch.stack([loss_sum.detach().double(), token_count.detach().double()])
    if dist.is_initialized():
        dist.all_reduce(totals)
    return (totals[0] / totals[1]).to(loss_sum.dtype)
