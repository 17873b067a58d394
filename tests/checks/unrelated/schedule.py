"""Wrong answers for lesson 07 that match no known misconception: the checks must not name one."""

import math

import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR

from course_lib.transformer import adam_update, learning_rate


def _loud(*arguments, **keywords):
    raise ValueError("no")


class _Forgets:
    """A scheduler that sets the rate once, and ignores further steps."""

    def step(self):
        pass


def _rounded(parameter, gradient, mean, variance, step, lr, *rest, **keywords):
    state = adam_update(parameter, gradient, mean, variance, step, lr, *rest, **keywords)
    return tuple(tensor.round(decimals=3) for tensor in state)


def _with_noise(parameter, gradient, mean, variance, step, lr, *rest, **keywords):
    moved, mean, variance = adam_update(parameter, gradient, mean, variance, step, lr, *rest, **keywords)
    return moved + 0.01, mean, variance


def _adagrad(parameter, gradient, mean, variance, step, lr, beta1=0.9, beta2=0.98, eps=1e-9):
    variance = variance + gradient**2
    return parameter - lr * gradient / (variance.sqrt() + eps), mean, variance


UNRELATED = {
    "adam_update": (
        lambda parameter, gradient, mean, variance, step, lr, beta1=0.9, beta2=0.98, eps=1e-9: 0.0,
        lambda parameter, gradient, mean, variance, step, lr, **_: (parameter, mean),
        lambda parameter, gradient, mean, variance, step: (parameter, mean, variance),
        _rounded,
        _with_noise,
        _adagrad,
        _loud,
        torch.optim.Adam,
    ),
    "learning_rate": (
        lambda step, d_model, warmup, factor=1.0: 0.0,
        lambda step, d_model, warmup, factor=1.0: factor * 1e-3,
        lambda step, d_model, warmup, factor=1.0: (learning_rate(step, d_model, warmup, factor), step),
        lambda step, d_model, warmup, factor=1.0: str(learning_rate(step, d_model, warmup, factor)),
        lambda step, d_model, warmup, factor=1.0: -learning_rate(step, d_model, warmup, factor),
        lambda step, d_model, warmup, factor=1.0: learning_rate(step, d_model, warmup, factor) + 1e-5,
        lambda step, d_model, warmup, factor=1.0: round(learning_rate(step, d_model, warmup, factor), 4),
        lambda step, d_model, warmup, factor=1.0: (
            factor * d_model**-0.5 * warmup**-0.5 * (1 + math.cos(step / 100)) / 2
        ),
        lambda step, d_model, warmup: learning_rate(step, d_model, warmup),
        _loud,
        0.01,
    ),
    "make_scheduler": (
        lambda optimizer, d_model, warmup, factor=1.0: optimizer,
        lambda optimizer, d_model, warmup, factor=1.0: CosineAnnealingLR(optimizer, warmup),
        lambda optimizer, d_model, warmup, factor=1.0: LambdaLR(optimizer, lambda done: 0.001),
        lambda optimizer, d_model, warmup, factor=1.0: learning_rate(1, d_model, warmup, factor),
        lambda optimizer, d_model, warmup, factor=1.0: _Forgets(),
        lambda optimizer, d_model, warmup, factor=1.0: LambdaLR(
            optimizer, lambda done: learning_rate(2 * done + 1, d_model, warmup, factor)
        ),
        lambda optimizer, d_model, warmup: LambdaLR(
            optimizer, lambda done: learning_rate(done + 1, d_model, warmup)
        ),
        _loud,
        "schedule",
    ),
}
