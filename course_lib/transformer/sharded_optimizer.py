"""An optimiser whose state is divided among the ranks.

This is stage 1 of ZeRO: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion
Parameter Models" (arXiv 1910.02054), section 5.1.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer


class ShardedOptimizer:
    """An optimiser that keeps state on each rank only for that rank's share of the parameters.

    `make_optimizer(parameters)` builds the optimiser of a share. Before a step, every rank has all gradients,
    already summed over the ranks. The step updates this rank's share; then every rank broadcasts its share,
    so that all ranks have the parameters that the unsharded optimiser would compute. The sizes of any two
    shares differ by at most the size of the largest parameter, and a share may be empty. Without a process
    group, this rank's share contains all parameters.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], make_optimizer: Callable[[list[nn.Parameter]], Optimizer]
    ) -> None:
        self.parameters = list(parameters)
        rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        sizes = [0] * world_size
        self.owners: list[int] = []
        for parameter in self.parameters:
            smallest = sizes.index(min(sizes))
            self.owners.append(smallest)
            sizes[smallest] += parameter.numel()
        owned = zip(self.parameters, self.owners, strict=True)
        share = [parameter for parameter, owner in owned if owner == rank]
        self.optimizer = make_optimizer(share) if share else None

    def step(self) -> None:
        """Update this rank's share, then receive all other shares from the ranks that own them."""
        if self.optimizer is not None:
            self.optimizer.step()
        if dist.is_initialized():
            for parameter, owner in zip(self.parameters, self.owners, strict=True):
                dist.broadcast(parameter.detach(), owner)

    def zero_grad(self) -> None:
        """Clear the gradients of all parameters, not only of this rank's share."""
        for parameter in self.parameters:
            parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Return the optimiser's state for this rank's share, or an empty dict if the share is empty."""
        return {} if self.optimizer is None else self.optimizer.state_dict()
