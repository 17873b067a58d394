"""Correct answers for lesson 00, written differently: the checks must accept all of them."""

import torch


def differences_by_none(x):
    return x[..., :, None] - x[..., None, :]


def differences_by_subtract(x):
    return torch.sub(x.unsqueeze(dim=x.dim()), x.unsqueeze(dim=x.dim() - 1))


def differences_by_repeating(x):
    length = x.shape[-1]
    columns = x.unsqueeze(-1).expand(*x.shape, length)
    return columns - columns.transpose(-1, -2)


def differences_by_loop(x):
    return torch.stack([x[..., i : i + 1] - x for i in range(x.shape[-1])], dim=-2)


def differences_by_columns(x):
    return torch.stack([x - x[..., j : j + 1] for j in range(x.shape[-1])], dim=-1)


def differences_row_by_row(x):
    length = x.shape[-1]
    tables = [row.view(-1, 1) - row.view(1, -1) for row in x.reshape(-1, length)]
    return torch.stack(tables).reshape(*x.shape, length)


def differences_of_negated(x):
    return -(x.unsqueeze(-2) - x.unsqueeze(-1))


VARIANTS = {
    "pairwise_differences": (
        differences_by_none,
        differences_by_subtract,
        differences_by_repeating,
        differences_by_loop,
        differences_by_columns,
        differences_row_by_row,
        differences_of_negated,
    ),
}
