"""Correct answers for lesson 01, written differently: the checks must accept all of them."""

import math

import torch
import torch.nn.functional as F


def scores_by_einsum(query, key):
    return torch.einsum("...qd,...kd->...qk", query, key) / query.size(-1) ** 0.5


def scores_of_scaled_queries(query, key):
    return torch.matmul(query * query.shape[-1] ** -0.5, key.mT)


def scores_by_broadcasting(query, key):
    products = query.unsqueeze(-2) * key.unsqueeze(-3)
    return products.sum(-1) / math.sqrt(key.shape[-1])


def scores_by_loop(query, key):
    columns = [(query * key[..., k : k + 1, :]).sum(-1) for k in range(key.shape[-2])]
    return torch.stack(columns, dim=-1) / torch.sqrt(torch.tensor(float(query.shape[-1]))).to(query.dtype)


def scores_by_swapped_axes(query, key):
    d_k = query.shape[-1]
    return (key @ query.swapaxes(-1, -2)).swapaxes(-1, -2) / math.sqrt(d_k)


def scores_scaled_on_both_sides(query, key):
    quarter = query.shape[-1] ** 0.25
    return (query / quarter) @ (key / quarter).transpose(-1, -2)


def weights_by_functional(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), torch.finfo(scores.dtype).min)
    weights = F.softmax(scores, dim=-1)
    return weights if mask is None else weights * mask


def weights_by_exponentials(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    highest = scores.detach().masked_fill(~mask, torch.finfo(scores.dtype).min).amax(-1, keepdim=True)
    exponentials = torch.exp((scores - highest).masked_fill(~mask, 0.0)).masked_fill(~mask, 0.0)
    return exponentials / exponentials.sum(-1, keepdim=True).clamp(min=1e-5)


def weights_with_empty_rows_opened(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, -1)
    mask = mask.expand_as(scores)
    empty = ~mask.any(dim=-1, keepdim=True)
    hidden = scores.masked_fill(~(mask | empty), float("-inf"))
    return torch.softmax(hidden, -1).masked_fill(empty, 0.0)


def weights_by_minus_infinity_covered(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    hidden = torch.where(mask, scores, torch.full_like(scores, float("-inf")))
    return torch.nan_to_num(hidden.softmax(-1), nan=0.0).where(mask, torch.zeros((), dtype=scores.dtype))


def weights_by_added_lowest(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    penalty = torch.zeros_like(scores).masked_fill(~mask, torch.finfo(scores.dtype).min / 2)
    return (scores + penalty).softmax(-1) * mask.to(scores.dtype)


def weights_by_rows(scores, mask=None):
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    rows = []
    for row, allowed in zip(
        scores.reshape(-1, scores.shape[-1]), mask.reshape(-1, scores.shape[-1]), strict=True
    ):
        weights = torch.zeros_like(row)
        if allowed.any():
            weights = weights.masked_scatter(allowed, row[allowed].softmax(0))
        rows.append(weights + 0 * row)
    return torch.stack(rows).reshape(scores.shape)


def _reference_weights(query, key, mask):
    return weights_by_functional(scores_by_einsum(query, key), mask)


def attention_by_einsum(query, key, value, mask=None, dropout=None):
    weights = _reference_weights(query, key, mask)
    dropped = dropout(weights) if dropout else weights
    return torch.einsum("...qk,...kv->...qv", dropped, value), weights


def attention_by_matmul(query, key, value, mask=None, dropout=None):
    weights = _reference_weights(query, key, mask)
    if dropout is not None:
        return torch.matmul(dropout(weights), value), weights
    return torch.matmul(weights, value), weights


def attention_as_list(query, key, value, mask=None, dropout=None):
    weights = _reference_weights(query, key, mask)
    output = (weights if dropout is None else dropout(weights)) @ value
    return [output, weights]


def attention_with_identity(query, key, value, mask=None, dropout=None):
    dropout = dropout or torch.nn.Identity()
    weights = _reference_weights(query, key, mask)
    return (dropout(weights).unsqueeze(-1) * value.unsqueeze(-3)).sum(-2), weights


def attention_with_detached_weights(query, key, value, mask=None, dropout=None):
    weights = _reference_weights(query, key, mask)
    dropped = weights if dropout is None else dropout(weights)
    return (value.transpose(-2, -1) @ dropped.transpose(-2, -1)).transpose(-2, -1), weights.detach()


VARIANTS = {
    "attention_scores": (
        scores_by_einsum,
        scores_of_scaled_queries,
        scores_by_broadcasting,
        scores_by_loop,
        scores_by_swapped_axes,
        scores_scaled_on_both_sides,
    ),
    "attention_weights": (
        weights_by_functional,
        weights_by_exponentials,
        weights_with_empty_rows_opened,
        weights_by_minus_infinity_covered,
        weights_by_added_lowest,
        weights_by_rows,
    ),
    "scaled_dot_product_attention": (
        attention_by_einsum,
        attention_by_matmul,
        attention_as_list,
        attention_with_identity,
        attention_with_detached_weights,
    ),
}
