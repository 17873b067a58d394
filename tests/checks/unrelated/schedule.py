"""Lesson 07, wrong answers that are none of the known misconceptions: nothing may be named for them."""

import math

from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR

from course_lib.transformer import learning_rate


def _loud(*arguments, **keywords):
    raise ValueError("no")


class _Forgets:
    """Sets the rate once, and does nothing when it is stepped."""

    def step(self):
        pass


UNRELATED = {
    "learning_rate": (
        lambda step, d_model, warmup, factor=1.0: None,
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
        lambda optimizer, d_model, warmup, factor=1.0: None,
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
