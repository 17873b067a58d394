"""The reference's layers in fewer and larger operations, for when no gradient is wanted.

Axes, beside those of `course_lib.transformer.attention`: BH sentences times heads, BL positions of all.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.transformer import FeedForward, LayerNorm, MultiHeadAttention


class Linear:
    """Some layers with the same input, as one: their outputs stand side by side.

    A CPU's kernels read a weight matrix in blocks. PyTorch would put it into blocks at every call, which for
    the few rows of a step can take as long as the product itself; here it is done once.
    """

    def __init__(self, layers: Sequence[nn.Linear], dtype: torch.dtype, relu: bool = False) -> None:
        weights: list[Tensor] = [layer.weight for layer in layers]
        biases: list[Tensor] = [layer.bias for layer in layers]
        one = len(layers) == 1
        self._weight = (weights[0] if one else torch.cat(weights)).to(dtype)
        self._bias = (biases[0] if one else torch.cat(biases)).to(dtype)
        self._relu = relu
        self._in_blocks = _in_blocks(self._weight)
        if self._in_blocks:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(self._weight, None)

    def __call__(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... E"]:
        """Compute them all, and ReLU after them if that was asked for."""
        if not self._in_blocks:
            y = F.linear(x, self._weight, self._bias)
            return y.relu_() if self._relu else y
        rows: Tensor = torch.ops.mkldnn._linear_pointwise(
            x.flatten(0, -2), self._weight, self._bias, "relu" if self._relu else "none", [], ""
        )
        return rows.unflatten(0, x.shape[:-1])


def _in_blocks(weight: Tensor) -> bool:
    """Say whether this PyTorch can keep a weight in oneDNN's blocks: the operators of its own compiler do."""
    return (
        weight.device.type == "cpu"
        and weight.dtype in (torch.float32, torch.bfloat16)
        and torch.backends.mkldnn.is_available()
        and all(hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise"))
    )


class Projections:
    """Some of the projections of an attention, as one, split into heads."""

    def __init__(self, attention: MultiHeadAttention, names: Sequence[str], dtype: torch.dtype) -> None:
        self._linear = Linear([getattr(attention, f"{name}_projection") for name in names], dtype)
        self._count, self._heads = len(names), attention.heads

    def __call__(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "P BH L d"]:
        """Compute them all."""
        split = self._linear(x).unflatten(-1, (self._count, self._heads, -1))
        return split.permute(2, 0, 3, 1, 4).flatten(1, 2)


class Norm:
    """`LayerNorm` by torch's kernel, which is the same function in one pass."""

    def __init__(self, norm: LayerNorm, dtype: torch.dtype) -> None:
        self._scale, self._shift, self._eps = norm.scale.to(dtype), norm.shift.to(dtype), norm.eps

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise over the last axis."""
        return F.layer_norm(x, self._scale.shape, self._scale, self._shift, self._eps)


class Feed:
    """`FeedForward` without dropout."""

    def __init__(self, feed_forward: FeedForward, dtype: torch.dtype) -> None:
        self._inner = Linear([feed_forward.inner], dtype, relu=True)
        self._outer = Linear([feed_forward.outer], dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """Widen, apply ReLU, narrow."""
        return self._outer(self._inner(x))


def attend(
    query: Float[Tensor, "BH Q d"],
    keys: Float[Tensor, "BH d K"],
    values: Float[Tensor, "BH K d"],
    bias: Float[Tensor, "BH _ K"] | None,
) -> Float[Tensor, "BH Q d"]:
    """Compute `scaled_dot_product_attention`; `bias` is added to the scores where a mask would stand."""
    scale = query.shape[-1] ** -0.5
    scores = torch.bmm(query * scale, keys) if bias is None else torch.baddbmm(bias, query, keys, alpha=scale)
    return torch.bmm(scores.softmax(dim=-1), values)


def merged(x: Float[Tensor, "BH L d"], heads: int) -> Float[Tensor, "B L D"]:
    """Put the heads side by side."""
    return x.unflatten(0, (-1, heads)).transpose(1, 2).flatten(2)


def padding_bias(mask: Bool[Tensor, "B 1 S"], dtype: torch.dtype) -> Float[Tensor, "B 1 1 S"] | None:
    """Give what to add to the scores so that nobody looks at padding; None where there is none."""
    if mask.all():
        return None
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min).unsqueeze(1)
