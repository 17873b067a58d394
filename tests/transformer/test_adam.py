"""Lesson 07: one update of Adam, compared with a manual calculation and with PyTorch's optimiser."""

import pytest
import torch
from torch import Tensor, nn

from course_lib.transformer import adam_update


def test_the_first_update_moves_every_parameter_by_the_learning_rate() -> None:
    # The means start at 0, so m = 0.1 g and v = 0.02 g², corrected to g and g². The move is lr * sign(g).
    parameter, gradient = torch.tensor([1.0, -2.0]), torch.tensor([0.3, -0.02])
    moved, mean, variance = adam_update(parameter, gradient, torch.zeros(2), torch.zeros(2), step=1, lr=0.1)
    assert moved.tolist() == pytest.approx([0.9, -1.9])
    assert mean.tolist() == pytest.approx([0.03, -0.002])
    assert variance.tolist() == pytest.approx([0.0018, 0.000008])


@pytest.mark.parametrize("settings", [{}, {"beta1": 0.5, "beta2": 0.75, "eps": 0.1}])
def test_fifty_updates_equal_those_of_pytorch(settings: dict[str, float]) -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(3, 4, dtype=torch.float64))
    betas = (settings.get("beta1", 0.9), settings.get("beta2", 0.98))
    optimizer = torch.optim.Adam([weight], lr=0.05, betas=betas, eps=settings.get("eps", 1e-9))
    state: tuple[Tensor, Tensor, Tensor] = (
        weight.detach().clone(),
        torch.zeros_like(weight),
        torch.zeros_like(weight),
    )
    for step in range(1, 51):
        weight.grad = torch.randn_like(weight)
        optimizer.step()
        parameter, mean, variance = state
        state = adam_update(parameter, weight.grad, mean, variance, step, 0.05, **settings)
        torch.testing.assert_close(state[0], weight.detach(), rtol=1e-12, atol=1e-12)


def test_without_a_gradient_nothing_moves_and_nothing_is_nan() -> None:
    zeros = torch.zeros(2)
    for result in adam_update(zeros, zeros, zeros, zeros, step=1, lr=1.0):
        assert torch.equal(result, zeros)


def test_the_arguments_are_not_modified() -> None:
    given = [torch.tensor([value]) for value in (1.0, 0.5, 0.25, 0.125)]
    before = [tensor.clone() for tensor in given]
    adam_update(given[0], given[1], given[2], given[3], step=3, lr=0.1)
    assert all(torch.equal(one, other) for one, other in zip(given, before, strict=True))
