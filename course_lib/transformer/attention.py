"""Scaled dot-product attention: section 3.2.1 and equation 1 of "Attention Is All You Need".

Axes, here and in all files beside this one:

B batch, H heads, L length, Q query length, K key length, d width of one head, D d_model, V vocabulary.
A mask is boolean and True means "may look".
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

#: What `MultiHeadAttention` may be given: `(query, key, value, mask, dropout)` to `(output, weights)`.
#: A fused kernel that never forms the weights hands back None for them.
AttentionFunction = Callable[..., tuple[Tensor, Tensor | None]]


def attention_scores(
    query: Float[Tensor, "... Q d"], key: Float[Tensor, "... K d"]
) -> Float[Tensor, "... Q K"]:
    """Say how well each query fits each key: their dot product, divided by the root of d.

    Section 3.2.1, equation 1, the part inside the softmax. Entry (i, j) belongs to query i and key j.
    """
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def attention_weights(
    scores: Float[Tensor, "... Q K"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "... Q K"]:
    """Turn each query's scores into weights over the keys: a softmax over those that the mask allows.

    Section 3.2.1, equation 1, the softmax; section 3.2.3, the mask. The mask broadcasts against the scores.
    Weights are exactly zero where the mask forbids. A query that may look at nothing gets all zeros, and
    a gradient of zeros.
    """
    if mask is None:
        return scores.softmax(dim=-1)
    # The lowest finite number, not minus infinity: a row of nothing but minus infinity would be 0 / 0.
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)


def scaled_dot_product_attention(
    query: Float[Tensor, "... Q d"],
    key: Float[Tensor, "... K d"],
    value: Float[Tensor, "... K v"],
    mask: Bool[Tensor, "..."] | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Float[Tensor, "... Q v"], Float[Tensor, "... Q K"]]:
    """Give each query the mean of the values, weighted by how well it fits their keys.

    Section 3.2.1, equation 1. `dropout`, where given, is applied to the weights before they meet the values.
    The weights handed back beside the output are those before dropout, so that each row still sums to one.
    """
    weights = attention_weights(attention_scores(query, key), mask)
    kept = weights if dropout is None else dropout(weights)
    return kept @ value, weights
