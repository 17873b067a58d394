"""The best few of very many numbers."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 64


def best_few(scores: Float[Tensor, "R V"], count: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """Find the `count` largest of each row and where they stand, as `torch.topk` does, largest first.

    A row is cut into blocks. The largest numbers lie in those blocks whose maxima are the largest; so one
    fast pass finds the maxima, and only the blocks chosen by them are sorted. Of equal numbers any may be
    chosen.
    """
    rows, width = scores.shape
    blocks, rest = divmod(width, BLOCK)
    if count >= blocks:
        return scores.topk(min(count, width), dim=1)
    whole = scores[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    chosen = whole.amax(dim=2).topk(count, dim=1).indices
    inside = whole.gather(1, chosen.unsqueeze(-1).expand(-1, -1, BLOCK)).flatten(1)
    places = (chosen.unsqueeze(-1) * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    if rest:
        last = torch.arange(blocks * BLOCK, width, device=scores.device).expand(rows, -1)
        inside = torch.cat([inside, scores[:, blocks * BLOCK :]], dim=1)
        places = torch.cat([places, last], dim=1)
    best, which = inside.topk(count, dim=1)
    return best, places.gather(1, which)
