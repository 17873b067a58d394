"""The reference's Transformer made ready to decode: its weights, laid out as the fused layers read them.

That depends on the weights alone, so that many batches share it; once the weights change, it has to be made
anew.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from course_lib.transformer import DecoderLayer, EncoderLayer, Transformer
from course_lib.translation.decoding.fused_layers import (
    Feed,
    Linear,
    Norm,
    Projections,
    padding_bias,
)


class FusedTransformer:
    """A Transformer whose layers compute in `dtype`, and whose generator computes in its own."""

    @torch.no_grad()
    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        encoder_layers: Any = model.encoder_layers
        decoder_layers: Any = model.decoder_layers
        self.dtype = dtype
        self.heads: int = decoder_layers[0].self_attention.heads
        self.generator = Linear([model.generator], model.generator.weight.dtype)
        self.logits_dtype = model.generator.weight.dtype
        self.decoder_layers = [FusedDecoderLayer(layer, dtype) for layer in decoder_layers]
        self.decoder_norm = None if model.decoder_norm is None else Norm(model.decoder_norm, dtype)
        self._encoder_layers = [FusedEncoderLayer(layer, dtype) for layer in encoder_layers]
        self._encoder_norm = None if model.encoder_norm is None else Norm(model.encoder_norm, dtype)
        self._source_table = model.source_embedding.table.weight
        self._target_table = model.target_embedding.table.weight
        self._positions = model.positions.table

    def encode(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B 1 S"]
    ) -> Float[Tensor, "B S D"]:
        """Compute `Transformer.encode` without dropout."""
        x = self._embedded(self._source_table, source, self._positions[: source.shape[1]])
        bias = padding_bias(source_mask, self.dtype)
        for layer in self._encoder_layers:
            x = layer(x, bias)
        return x if self._encoder_norm is None else self._encoder_norm(x)

    def embed_target(self, tokens: Int[Tensor, "B K"], position: int) -> Float[Tensor, "B K D"]:
        """Embed tokens that all stand at this position of a target."""
        return self._embedded(self._target_table, tokens, self._positions[position])

    def _embedded(self, table: Tensor, tokens: Tensor, positions: Tensor) -> Tensor:
        embedded = F.embedding(tokens, table) * math.sqrt(table.shape[1])
        return (embedded + positions.to(embedded.dtype)).to(self.dtype)


class FusedEncoderLayer:
    """`EncoderLayer` without dropout."""

    def __init__(self, layer: EncoderLayer, dtype: torch.dtype) -> None:
        attention = layer.self_attention
        connections: Any = layer.sublayers
        self._heads = attention.heads
        projections = (attention.query_projection, attention.key_projection, attention.value_projection)
        self._project = Linear(projections, dtype)
        self._output = Linear([attention.output_projection], dtype)
        self._feed = Feed(layer.feed_forward, dtype)
        self._norms = [Norm(connection.norm, dtype) for connection in connections]
        self._norm_first = connections[0].norm_first

    def __call__(
        self, x: Float[Tensor, "B S D"], bias: Float[Tensor, "B 1 1 S"] | None
    ) -> Float[Tensor, "B S D"]:
        """Compute the layer; `bias` keeps everyone from looking at padding."""

        def look(x: Tensor) -> Tensor:
            split = self._project(x).unflatten(-1, (3, self._heads, -1))
            query, key, value = split.permute(2, 0, 3, 1, 4)
            output = F.scaled_dot_product_attention(query, key, value, bias)
            return self._output(output.transpose(1, 2).flatten(2))

        sublayers: tuple[Callable[[Tensor], Tensor], ...] = (look, self._feed)
        for sublayer, norm in zip(sublayers, self._norms, strict=True):
            x = x + sublayer(norm(x)) if self._norm_first else norm(x + sublayer(x))
        return x


class FusedDecoderLayer:
    """The weights of a `DecoderLayer`; projections of the same input stand side by side in one matrix."""

    def __init__(self, layer: DecoderLayer, dtype: torch.dtype) -> None:
        own, cross = layer.self_attention, layer.cross_attention
        connections: Any = layer.sublayers
        self.heads = own.heads
        self.own = Projections(own, ["query", "key", "value"], dtype)
        self.own_output = Linear([own.output_projection], dtype)
        self.cross_query = Projections(cross, ["query"], dtype)
        self.cross_memory = Projections(cross, ["key", "value"], dtype)
        self.cross_output = Linear([cross.output_projection], dtype)
        self.feed = Feed(layer.feed_forward, dtype)
        self.norms = [Norm(connection.norm, dtype) for connection in connections]
        self.norm_first = connections[0].norm_first
