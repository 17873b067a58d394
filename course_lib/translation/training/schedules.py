"""How the learning rate goes over a run: the paper's schedule, or one of those that came after it."""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from course_lib.translation.configs.schema import TrainingConfig
from course_lib.translation.model.components import Pieces


def build_scheduler(
    optimizer: Optimizer, config: TrainingConfig, d_model: int, pieces: Pieces
) -> LRScheduler:
    """Drive an optimiser, whose own rate is 1.0, by the schedule that the config names."""
    if config.schedule == "paper":
        return pieces.make_scheduler(optimizer, d_model, config.warmup_steps, config.lr_factor)
    # LambdaLR counts the updates done so far: 0 before the first.
    return LambdaLR(optimizer, lambda done: rate(config, done + 1))


def rate(config: TrainingConfig, step: int) -> float:
    """Give the rate of update number `step`, the first being 1, for the schedules that have a peak."""
    assert config.lr is not None, "the config has checked it"
    return config.lr * min(step / config.warmup_steps, _after_warmup(config, max(step, config.warmup_steps)))


def _after_warmup(config: TrainingConfig, step: int) -> float:
    """Give the share of the peak at a step from the end of the warm-up on, where it is 1."""
    if config.schedule == "inverse-sqrt":
        return math.sqrt(config.warmup_steps / step)
    if config.schedule == "constant":
        return 1.0
    assert config.decay_steps is not None, "the config has checked it"
    done = min(1.0, (step - config.warmup_steps) / (config.decay_steps - config.warmup_steps))
    return 1 - done if config.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2
