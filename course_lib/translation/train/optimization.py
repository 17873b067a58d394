"""The optimiser and its learning rate schedule: the paper's, or a newer one."""

import math

from torch import nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from course_lib.translation.configs.schema import TrainingConfig
from course_lib.translation.model.seq2seq import Components


def make_optimizer(parameters: list[nn.Parameter], config: TrainingConfig) -> Optimizer:
    """Build the optimiser that the config names, with the constants of section 5.3 of the paper.

    Its own learning rate is 1.0, which the schedule multiplies by the learning rate of each update.
    """
    # With Adam, the weight decay is always 0, because the config rejects other values.
    kind = AdamW if config.optimizer == "adamw" else Adam
    return kind(parameters, 1.0, betas=(0.9, 0.98), eps=1e-9, weight_decay=config.weight_decay, fused=True)


def make_scheduler(
    optimizer: Optimizer, config: TrainingConfig, d_model: int, components: Components
) -> LRScheduler:
    """Build the schedule that the config names, for an optimiser whose own learning rate is 1.0.

    The paper's schedule depends on `d_model` and is built by `components`, which may be a student's.
    """
    if config.schedule == "paper":
        return components.make_scheduler(optimizer, d_model, config.warmup_steps, config.lr_factor)
    # LambdaLR counts from 0 before the first update.
    return LambdaLR(optimizer, lambda updates: learning_rate(config, updates + 1))


def learning_rate(config: TrainingConfig, step: int) -> float:
    """Return the learning rate of update `step`, counted from 1. The paper's schedule is not supported."""
    assert config.lr is not None, "validated with the config"
    warmup = config.warmup_steps
    if step <= warmup:
        return config.lr * (step / warmup)
    if config.schedule == "constant":
        return config.lr
    if config.schedule == "inverse-sqrt":
        return config.lr * math.sqrt(warmup / step)
    assert config.decay_steps is not None, "validated with the config"
    done = min(1.0, (step - warmup) / (config.decay_steps - warmup))
    return config.lr * (1 - done if config.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2)
