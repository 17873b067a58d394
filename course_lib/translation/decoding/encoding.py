"""The reference's encoder, for when no gradient is wanted."""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_lib.transformer import EncoderLayer, Transformer
from course_lib.translation.decoding.fused_layers import (
    Feed,
    Linear,
    Norm,
    Projections,
    attend,
    merged,
    padding_bias,
)


def encoded(
    model: Transformer,
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B 1 S"],
    dtype: torch.dtype,
) -> Float[Tensor, "B S D"]:
    """Compute `model.encode(source, source_mask)` without dropout, the layers in `dtype`."""
    table = model.source_embedding.table.weight
    x = table[source] * math.sqrt(table.shape[1])
    x = (x + model.positions.table[: source.shape[1]].to(x.dtype)).to(dtype)
    layers: Any = model.encoder_layers
    bias = padding_bias(source_mask, layers[0].self_attention.heads, dtype)
    for layer in layers:
        x = _layer(layer, x, bias)
    return x if model.encoder_norm is None else Norm(model.encoder_norm, dtype)(x)


def _layer(layer: EncoderLayer, x: Float[Tensor, "B S D"], bias: Tensor | None) -> Float[Tensor, "B S D"]:
    attention, dtype = layer.self_attention, x.dtype
    project = Projections(attention, ["query", "key", "value"], dtype)
    output = Linear([attention.output_projection], dtype)

    def look(x: Tensor) -> Tensor:
        query, key, value = project(x)
        return output(merged(attend(query, key.transpose(1, 2), value, bias), attention.heads))

    connections: Any = layer.sublayers
    sublayers: tuple[Callable[[Tensor], Tensor], ...] = (look, Feed(layer.feed_forward, dtype))
    for sublayer, connection in zip(sublayers, connections, strict=True):
        norm = Norm(connection.norm, dtype)
        x = x + sublayer(norm(x)) if connection.norm_first else norm(x + sublayer(x))
    return x
