"""Lesson 07: the learning rate, compared with equation 3 by hand, and used with real optimisers."""

import math
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from course_lib.transformer import learning_rate, make_scheduler

# d_model 4 gives 4^-0.5 = 1/2, warmup 4 gives 4^-1.5 = 1/8. So the rise is step/16, up to 1/4 at step 4,
# and the fall is 1 / (2 sqrt(step)).
BY_HAND = {
    1: 1 / 16,
    2: 2 / 16,
    3: 3 / 16,
    4: 1 / 4,
    5: 0.22360679774997896,
    9: 1 / 6,
    16: 1 / 8,
    25: 1 / 10,
    100: 1 / 20,
}


@pytest.mark.parametrize(("step", "rate"), BY_HAND.items())
def test_the_rate_is_that_of_equation_3(step: int, rate: float) -> None:
    assert learning_rate(step, 4, 4) == pytest.approx(rate, rel=1e-14)
    assert learning_rate(step, 4, 4, factor=0.5) == pytest.approx(rate / 2, rel=1e-14)


def test_the_rates_of_the_base_model() -> None:
    # 512^-0.5 = 0.04419417382; 4000^-1.5 = 3.95284707521e-6; 4000^-0.5 = 0.0158113883.
    assert learning_rate(1, 512, 4000) == pytest.approx(1.7469281e-7, rel=1e-7)
    assert learning_rate(4000, 512, 4000) == pytest.approx(6.9877124e-4, rel=1e-7)
    assert learning_rate(100_000, 512, 4000) == pytest.approx(1.3975425e-4, rel=1e-7)


@given(st.integers(1, 1000), st.integers(1, 500), st.floats(0.01, 10))
def test_it_rises_in_a_straight_line_then_falls_with_the_root(
    d_model: int, warmup: int, factor: float
) -> None:
    def rate(step: int) -> float:
        return learning_rate(step, d_model, warmup, factor)

    peak = factor / math.sqrt(d_model * warmup)
    assert rate(warmup) == pytest.approx(peak)
    assert rate(4 * warmup) == pytest.approx(peak / 2)
    for step in range(1, warmup, 1 + warmup // 20):
        assert rate(step) == pytest.approx(peak * step / warmup)
    assert all(rate(step) > rate(step + 1) for step in range(warmup, warmup + 20))


@pytest.mark.parametrize("step", [0, -1])
def test_there_is_no_update_before_the_first(step: int) -> None:
    with pytest.raises(ValueError, match=rf"step 1.*step {step}"):
        learning_rate(step, 4, 4)


def steps_of_a_weight(
    optimizer: torch.optim.Optimizer, scheduler: LRScheduler, weight: nn.Parameter, count: int
):
    """Update with a gradient of one, and return the weight's decreases, which are the learning rates."""
    falls = []
    for _ in range(count):
        before = weight.item()
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        scheduler.step()
        falls.append(before - weight.item())
    return falls


def test_pitfall_03_update_n_runs_at_the_rate_of_step_n() -> None:
    weight = nn.Parameter(torch.zeros((), dtype=torch.float64))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    falls = steps_of_a_weight(optimizer, make_scheduler(optimizer, 4, 4), weight, 25)
    for step, rate in BY_HAND.items():
        if step <= 25:
            assert falls[step - 1] == pytest.approx(rate, rel=1e-12)


def test_pitfall_03_the_first_two_updates_run_at_different_rates() -> None:
    weight = nn.Parameter(torch.zeros((), dtype=torch.float64))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    first, second = steps_of_a_weight(optimizer, make_scheduler(optimizer, 512, 3000), weight, 2)
    assert second == pytest.approx(2 * first)


def test_the_paper_s_optimiser_is_driven_too() -> None:
    weight = nn.Parameter(torch.zeros((), dtype=torch.float64))
    optimizer = torch.optim.Adam([weight], lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    # Adam divides a constant gradient by its magnitude, so the weight moves by the rate.
    falls = steps_of_a_weight(optimizer, make_scheduler(optimizer, 4, 4, factor=2.0), weight, 9)
    expected = [2 * BY_HAND[step] if step in BY_HAND else 1 / math.sqrt(step) for step in range(1, 10)]
    assert falls == pytest.approx(expected, rel=1e-7)


def test_every_group_of_weights_is_driven_from_its_own_base() -> None:
    weights = [nn.Parameter(torch.zeros(())) for _ in range(2)]
    groups = [{"params": weights[:1]}, {"params": weights[1:], "lr": 3.0}]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    scheduler = make_scheduler(optimizer, 4, 4)
    assert [group["lr"] for group in optimizer.param_groups] == [1 / 16, 3 / 16]
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [2 / 16, 6 / 16]


def test_a_saved_schedule_resumes_where_it_stopped() -> None:
    weight = nn.Parameter(torch.zeros((), dtype=torch.float64))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scheduler = make_scheduler(optimizer, 4, 4)
    steps_of_a_weight(optimizer, scheduler, weight, 3)
    saved = pickle.loads(pickle.dumps((optimizer.state_dict(), scheduler.state_dict())))

    optimizer = torch.optim.SGD([weight], lr=1.0)
    scheduler = make_scheduler(optimizer, 4, 4)
    optimizer.load_state_dict(saved[0])
    scheduler.load_state_dict(saved[1])
    falls = steps_of_a_weight(optimizer, scheduler, weight, 2)
    assert falls == pytest.approx([BY_HAND[4], BY_HAND[5]], rel=1e-12)
