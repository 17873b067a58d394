"""The reference's Transformer for inference, with fewer and larger operations.

An `InferenceTransformer` copies weights when it is created, so a new one is needed after they change. Many
batches can share it.

Axes, in addition to those of `course_lib.transformer.attention`: BH, the heads of all sentences.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.transformer import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    Transformer,
)

Sublayer = Callable[[Tensor], Tensor]


class InferenceTransformer:
    """A Transformer for inference. Its layers compute in `dtype`, its generator in the weights' own dtype."""

    @torch.no_grad()
    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        encoder_layers: Any = model.encoder_layers
        decoder_layers: Any = model.decoder_layers
        self.dtype = dtype
        self.heads: int = decoder_layers[0].self_attention.heads
        self.generator = MergedLinear([model.generator], model.generator.weight.dtype)
        self.logits_dtype = model.generator.weight.dtype
        self.decoder_layers = [InferenceDecoderLayer(layer, dtype) for layer in decoder_layers]
        self.decoder_norm = _norm(model.decoder_norm, dtype)
        self._encoder_layers = [InferenceEncoderLayer(layer, dtype) for layer in encoder_layers]
        self._encoder_norm = _norm(model.encoder_norm, dtype)
        self._source_table = model.source_embedding.table.weight
        self._target_table = model.target_embedding.table.weight
        self._positions = model.positions.table

    def encode(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B 1 S"]
    ) -> Float[Tensor, "B S D"]:
        """Compute the result of `Transformer.encode`, without dropout."""
        x = self._embed(self._source_table, source, self._positions[: source.shape[1]])
        bias = padding_bias(source_mask, self.dtype)
        for layer in self._encoder_layers:
            x = layer(x, bias)
        return self._encoder_norm(x)

    def embed_target(self, tokens: Int[Tensor, "B K"], position: int) -> Float[Tensor, "B K D"]:
        """Embed target tokens that are all at the same position."""
        return self._embed(self._target_table, tokens, self._positions[position])

    def _embed(self, table: Tensor, tokens: Tensor, positions: Tensor) -> Tensor:
        embedded = F.embedding(tokens, table) * math.sqrt(table.shape[1])
        return (embedded + positions.to(embedded.dtype)).to(self.dtype)


class _InferenceLayer:
    """The parts that encoder layers and decoder layers have in common, in `dtype` and without dropout."""

    def __init__(self, layer: EncoderLayer | DecoderLayer, dtype: torch.dtype) -> None:
        attention, connections = layer.self_attention, cast(Any, layer.sublayers)
        self.heads = attention.heads
        self.self_projections = HeadProjections(attention, ["query", "key", "value"], dtype)
        self.self_output = MergedLinear([attention.output_projection], dtype)
        self.feed_forward = _feed_forward(layer.feed_forward, dtype)
        self.norms = [_norm(connection.norm, dtype) for connection in connections]
        self.norm_first = connections[0].norm_first


class InferenceEncoderLayer(_InferenceLayer):
    """An `EncoderLayer` for inference."""

    def __call__(
        self, x: Float[Tensor, "B S D"], bias: Float[Tensor, "B 1 1 S"] | None
    ) -> Float[Tensor, "B S D"]:
        """Compute the layer's output. `bias` masks the padding; it is None if there is no padding."""

        def self_attention(x: Tensor) -> Tensor:
            query, key, value = self.self_projections(x)
            output = F.scaled_dot_product_attention(query, key, value, bias)
            return self.self_output(output.transpose(1, 2).flatten(2))

        return residual_sublayers(x, [self_attention, self.feed_forward], self.norms, self.norm_first)


class InferenceDecoderLayer(_InferenceLayer):
    """The parts of a `DecoderLayer` for inference, with projections of the same input merged."""

    def __init__(self, layer: DecoderLayer, dtype: torch.dtype) -> None:
        super().__init__(layer, dtype)
        cross = layer.cross_attention
        self.cross_query = HeadProjections(cross, ["query"], dtype)
        self.cross_memory = HeadProjections(cross, ["key", "value"], dtype)
        self.cross_output = MergedLinear([cross.output_projection], dtype)


class MergedLinear:
    """Linear layers with the same input, merged into one layer that concatenates their outputs.

    The layer computes in `dtype`, and applies ReLU to its outputs if `relu` is true.

    CPU kernels read a weight matrix in blocks. PyTorch reorders the matrix into blocks at every call. With
    the few rows of a decoding step, that can take as long as the product itself. This class reorders the
    matrix only once, if oneDNN supports that.
    """

    def __init__(self, layers: Sequence[nn.Linear], dtype: torch.dtype, relu: bool = False) -> None:
        weights: list[Tensor] = [layer.weight for layer in layers]
        biases: list[Tensor] = [layer.bias for layer in layers]
        single = len(layers) == 1
        self._weight = (weights[0] if single else torch.cat(weights)).to(dtype)
        self._bias = (biases[0] if single else torch.cat(biases)).to(dtype)
        self._relu = relu
        self._packed = _can_pack(self._weight)
        if self._packed:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(self._weight, None)

    def __call__(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... E"]:
        """Compute the concatenated outputs of all layers, followed by ReLU if `relu` was set."""
        if not self._packed:
            y = F.linear(x, self._weight, self._bias)
            return y.relu_() if self._relu else y
        rows: Tensor = torch.ops.mkldnn._linear_pointwise(
            x.flatten(0, -2), self._weight, self._bias, "relu" if self._relu else "none", [], ""
        )
        return rows.unflatten(0, x.shape[:-1])


def _can_pack(weight: Tensor) -> bool:
    """Return whether a weight can be stored in oneDNN's block format.

    The operators for it are private: PyTorch's own compiler uses them, and there is no public interface with
    the same effect. Without them, `MergedLinear` uses `F.linear`, and decoding takes 1.4 to 2 times as long
    on a CPU (d_model of 192 to 512, 16 to 64 sentences).
    """
    if (
        weight.device.type != "cpu"
        or not torch.backends.mkldnn.is_available()
        or not all(
            hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise")
        )
    ):
        return False
    if weight.dtype == torch.bfloat16:
        # Some processors, such as those with AVX2 only, have no kernels for bfloat16.
        supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
        return supported is not None and bool(supported())
    return weight.dtype == torch.float32


class HeadProjections:
    """Projections of an attention module, merged into one layer whose output is split into heads.

    `names` contains the projections to merge, from "query", "key" and "value".
    """

    def __init__(self, attention: MultiHeadAttention, names: Sequence[str], dtype: torch.dtype) -> None:
        self._linear = MergedLinear([getattr(attention, f"{name}_projection") for name in names], dtype)
        self._count, self._heads = len(names), attention.heads

    def __call__(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "P B H L d"]:
        """Compute all P projections, and split them into heads, without copying them."""
        split = self._linear(x).unflatten(-1, (self._count, self._heads, -1))
        return split.permute(2, 0, 3, 1, 4)


def _norm(norm: LayerNorm | None, dtype: torch.dtype) -> Sublayer:
    """Return a `LayerNorm` for inputs in `dtype`, computed by PyTorch's kernel in one pass.

    If `norm` is None, return the identity function.
    """
    if norm is None:
        return lambda x: x
    scale, shift = norm.scale.to(dtype), norm.shift.to(dtype)
    return partial(F.layer_norm, normalized_shape=scale.shape, weight=scale, bias=shift, eps=norm.eps)


def _feed_forward(network: FeedForward, dtype: torch.dtype) -> Sublayer:
    """Return a `FeedForward` network for inference, which computes in `dtype` and without dropout."""
    inner, outer = MergedLinear([network.inner], dtype, relu=True), MergedLinear([network.outer], dtype)
    return lambda x: outer(inner(x))


def residual_sublayers(
    x: Float[Tensor, "B L D"],
    sublayers: Sequence[Sublayer],
    norms: Sequence[Sublayer],
    norm_first: bool,
) -> Float[Tensor, "B L D"]:
    """Apply the sublayers of a layer one after another, each with its residual connection and its norm.

    With `norm_first`, the norm comes before the sublayer, otherwise after the residual connection.
    """
    for sublayer, norm in zip(sublayers, norms, strict=True):
        x = x + sublayer(norm(x)) if norm_first else norm(x + sublayer(x))
    return x


def attend(
    query: Float[Tensor, "BH Q d"],
    keys: Float[Tensor, "BH d K"],
    values: Float[Tensor, "BH K d"],
    bias: Float[Tensor, "BH _ K"] | None,
) -> Float[Tensor, "BH Q d"]:
    """Compute scaled dot-product attention with transposed keys.

    `bias` is added to the scores in place of a mask; None masks nothing.
    """
    scale = query.shape[-1] ** -0.5
    scores = torch.bmm(query * scale, keys) if bias is None else torch.baddbmm(bias, query, keys, alpha=scale)
    return torch.bmm(scores.softmax(dim=-1), values)


def merge_heads(x: Float[Tensor, "BH L d"], heads: int) -> Float[Tensor, "B L D"]:
    """Concatenate the heads of each sentence."""
    return x.unflatten(0, (-1, heads)).transpose(1, 2).flatten(2)


def padding_bias(mask: Bool[Tensor, "B 1 S"], dtype: torch.dtype) -> Float[Tensor, "B 1 1 S"] | None:
    """Return the bias that masks padding when it is added to the scores, or None if there is no padding."""
    if mask.all():
        return None
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min).unsqueeze(1)
