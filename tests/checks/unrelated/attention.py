"""Wrong answers for lesson 01 that match no known misconception: the checks must not name one."""

import torch

from course_lib.transformer import attention_scores, attention_weights, scaled_dot_product_attention


def _attend(query, key, value, mask=None, dropout=None):
    return scaled_dot_product_attention(query, key, value, mask, dropout)


def _lowered(query, key, value, mask=None, dropout=None):
    scores = attention_scores(query, key)
    if mask is not None:
        scores = scores.masked_fill(~mask, -50.0)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights * mask.any(-1, keepdim=True)
    return (weights if dropout is None else dropout(weights)) @ value, weights


def _loud(query, key):
    raise RuntimeError("no")


UNRELATED = {
    "attention_scores": (
        lambda query, key: None,
        lambda query, key: torch.zeros(*query.shape[:-1], key.shape[-2], dtype=query.dtype),
        lambda query, key: query,
        lambda query, key: attention_scores(query, key).tolist(),
        lambda query, key: attention_scores(query, key) + 1e-3,
        lambda query, key: attention_scores(query, key).unsqueeze(0),
        lambda query, key: attention_scores(query, key).abs(),
        lambda query: query,
        _loud,
        3.0,
        None,
    ),
    "attention_weights": (
        lambda scores, mask=None: None,
        lambda scores, mask=None: scores,
        lambda scores, mask=None: torch.full_like(scores, 1 / scores.shape[-1]),
        lambda scores: scores.softmax(-1),
        lambda scores, mask=None: attention_weights(scores, mask).round(),
        lambda scores, mask=None: attention_weights(scores, mask).flip(-1),
        lambda scores, mask=None: (attention_weights(scores, mask), scores),
        "softmax",
    ),
    "scaled_dot_product_attention": (
        _lowered,
        lambda query, key, value, mask=None, dropout=None: (None, None),
        lambda query, key, value, mask=None, dropout=None: value,
        lambda query, key, value: _attend(query, key, value),
        lambda query, key, value, mask=None, dropout=None: (*_attend(query, key, value, mask, dropout), 0),
        lambda query, key, value, mask=None, dropout=None: _attend(query, key, value.flip(-2), mask, dropout),
        lambda query, key, value, mask=None, dropout=None: torch.stack(
            _attend(query, key, value, mask, dropout)
        ),
    ),
}
