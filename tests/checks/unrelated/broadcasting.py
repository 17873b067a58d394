"""Wrong answers for lesson 00 that match no known misconception: the checks must not name one."""

import torch

from course_lib.transformer import pairwise_differences


def _changes_x(x):
    table = pairwise_differences(x)
    x *= 2
    return table


def _loud(x):
    raise RuntimeError("no")


UNRELATED = {
    "pairwise_differences": (
        lambda x: None,
        lambda x: x,
        lambda x: torch.zeros(*x.shape, x.shape[-1], dtype=x.dtype),
        lambda x: pairwise_differences(x).tolist(),
        lambda x: pairwise_differences(x) + 1,
        lambda x: pairwise_differences(x).flip(-1),
        lambda x: x.unsqueeze(-1) * x.unsqueeze(-2),
        lambda x: pairwise_differences(x).unsqueeze(0),
        lambda x, y: x - y,
        _changes_x,
        _loud,
        None,
    ),
}
