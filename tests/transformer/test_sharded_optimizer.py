"""`ShardedOptimizer` in one process. `test_replicas` trains with it in several processes."""

import torch
from torch import nn
from torch.optim import Adam

from course_lib.transformer import ShardedOptimizer


def test_alone_it_is_the_optimizer_inside() -> None:
    pairs = [[nn.Parameter(torch.arange(3.0)), nn.Parameter(torch.ones(2))] for _ in range(2)]
    sharded, plain = (
        ShardedOptimizer(iter(pairs[0]), lambda share: Adam(share, lr=0.1)),
        Adam(pairs[1], lr=0.1),
    )
    for _ in range(3):
        for parameter in (*pairs[0], *pairs[1]):
            parameter.grad = parameter.detach().clone() + 1
        sharded.step()
        plain.step()
    for one, other in zip(*pairs, strict=True):
        assert torch.equal(one, other)
    assert sharded.state_dict()["state"].keys() == plain.state_dict()["state"].keys()
    sharded.zero_grad()
    assert all(parameter.grad is None for parameter in pairs[0])


def test_an_empty_list_needs_no_optimizer() -> None:
    optimizer = ShardedOptimizer([], lambda share: Adam(share))
    optimizer.step()
    optimizer.zero_grad()
    assert optimizer.state_dict() == {}
