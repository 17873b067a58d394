"""Replicas with a sharded optimiser train like one process, with and without buckets, in real processes."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam

from course_lib.transformer import (
    GradientBuckets,
    ShardedOptimizer,
    all_reduce_gradients,
    broadcast_parameters,
)
from course_lib.translation.distributed import DistributedInfo
from tests.translation.real_processes import in_processes

RANKS, UPDATES = 3, 4


def made(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 5), nn.BatchNorm1d(5)).double()
    model[2].weight.requires_grad_(False)
    return model


def sentences(update: int) -> Tensor:
    return torch.randn(RANKS * 4, 5, generator=torch.Generator().manual_seed(update), dtype=torch.float64)


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    # In training mode, BatchNorm would mix the sentences of one rank.
    model.eval()
    loss: Tensor = model(x).square().sum() / (RANKS * 4)
    return loss


def one_process(kind: str) -> dict[str, Tensor]:
    model = made(0)
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = Adam(trained, lr=0.1)
    for update in range(UPDATES):
        optimizer.zero_grad()
        loss_of(model, sentences(update)).backward()
        optimizer.step()
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def of_a_rank(distributed: DistributedInfo, kind: str) -> dict[str, Tensor]:
    model = made(distributed.rank)
    broadcast_parameters(model)
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer: Any = ShardedOptimizer(trained, lambda share: Adam(share, lr=0.1))
    buckets = GradientBuckets(model, 300) if kind == "buckets" else None
    for update in range(UPDATES):
        optimizer.zero_grad()
        mine = sentences(update)[distributed.rank :: RANKS]
        if buckets is None:
            loss_of(model, mine).backward()
            all_reduce_gradients(model)
        else:
            with buckets.no_sync():
                loss_of(model, mine[:1]).backward()
            loss_of(model, mine[1:]).backward()
            buckets.finish()
        optimizer.step()
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one by one", "buckets"])
def test_three_ranks_train_the_model_of_one_process(kind: str) -> None:
    alone = one_process(kind)
    for weights in in_processes(RANKS, of_a_rank, kind):
        for name, weight in alone.items():
            torch.testing.assert_close(weights[name], weight)
