"""Scaled dot-product attention: section 3.2.1 and equation 1 of "Attention Is All You Need".

Axes, here and in the other modules of this package:

B is the batch, H the heads, L the length, S the source length, T the target length, Q the query length, K the
key length, D the width of the model (d_model), d the width of one head, d_v the width of a value (in a head
also d), and V the vocabulary. An axis marked with # may also have length one. A mask is boolean; True means
that the position may be attended to.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

#: The type of the `attention` argument, mapping `(query, key, value, mask, dropout)` to `(output, weights)`.
#: A fused kernel that never materialises the weights returns None for them.
AttentionFunction = Callable[
    [Tensor, Tensor, Tensor, Tensor | None, Callable[[Tensor], Tensor] | None],
    tuple[Tensor, Tensor | None],
]


def attention_scores(
    query: Float[Tensor, "... Q d"], key: Float[Tensor, "... K d"]
) -> Float[Tensor, "... Q K"]:
    """Compute the scaled dot product of every query with every key.

    This is the argument of softmax in equation 1 (section 3.2.1). Entry (i, j) belongs to query i and key j.
    """
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def attention_weights(
    scores: Float[Tensor, "... Q K"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "... Q K"]:
    """Compute attention weights: for each query, a softmax over the keys that the mask allows.

    This is the softmax of equation 1 (section 3.2.1) with the mask of section 3.2.3. The mask broadcasts
    against the scores. Weights are exactly zero where the mask is False. A query that may attend to nothing
    gets weights of zero and a gradient of zero. All this also holds for scores in float16.
    """
    if mask is None:
        return scores.softmax(dim=-1)
    # Use the lowest finite number, because a row of minus infinities would give 0 / 0.
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)


def scaled_dot_product_attention(
    query: Float[Tensor, "... Q d"],
    key: Float[Tensor, "... K d"],
    value: Float[Tensor, "... K d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Float[Tensor, "... Q d_v"], Float[Tensor, "... Q K"]]:
    """Return, for each query, the mean of the values weighted by the attention weights, and these weights.

    This is equation 1 (section 3.2.1). `dropout`, if given, is applied to the weights before they are
    multiplied by the values. The returned weights are those before dropout, so that each row still sums to
    one, or to zero if everything is masked.
    """
    weights = attention_weights(attention_scores(query, key), mask)
    kept = weights if dropout is None else dropout(weights)
    return kept @ value, weights
