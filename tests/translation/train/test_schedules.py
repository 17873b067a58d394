"""The schedules rise, peak and fall as configured."""

import pytest
import torch

from course_lib.transformer import learning_rate
from course_lib.translation.configs.schema import TrainingConfig
from course_lib.translation.model.seq2seq import REFERENCE
from course_lib.translation.train.optimization import make_scheduler


def rates(updates: int, **keys: object) -> list[float]:
    """Return the learning rates of the first updates."""
    config = TrainingConfig.model_validate({"epochs": 1, "warmup_steps": 4, **keys})
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1.0)
    scheduler = make_scheduler(optimizer, config, 16, REFERENCE)
    found = []
    for _ in range(updates):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def test_the_paper_s() -> None:
    assert rates(9, lr_factor=3.0) == pytest.approx(
        [learning_rate(step, 16, 4, 3.0) for step in range(1, 10)]
    )


@pytest.mark.parametrize(
    ("keys", "shares"),
    [
        ({"schedule": "inverse-sqrt"}, {8: 0.5**0.5, 16: 0.5, 100: 0.2}),
        ({"schedule": "constant"}, {5: 1.0, 100: 1.0}),
        ({"schedule": "linear", "decay_steps": 24}, {9: 0.75, 14: 0.5, 24: 0.0, 30: 0.0}),
        ({"schedule": "cosine", "decay_steps": 24}, {14: 0.5, 24: 0.0, 30: 0.0}),
        ({"schedule": "cosine", "decay_steps": 16}, {7: (1 + 0.5**0.5) / 2}),
    ],
)
def test_the_others(keys: dict[str, object], shares: dict[int, float]) -> None:
    found = rates(max(shares), lr=0.01, **keys)
    assert found[:4] == pytest.approx([0.0025, 0.005, 0.0075, 0.01])
    for step, share in shares.items():
        assert found[step - 1] == pytest.approx(0.01 * share, abs=1e-12)
    assert found[3:] == sorted(found[3:], reverse=True)
