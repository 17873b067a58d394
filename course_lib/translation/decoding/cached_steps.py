"""The reference's decoder, one token at a time: what a layer has computed for earlier tokens is kept.

Without that, token t is written by computing all t tokens before it anew. With it, a step costs what one
token costs: its own projections, and one look at the kept keys and values.

Two things are never copied, however many beams a sentence has. The keys and values of its source are
projected once, and all its beams look at them as so many queries. And its beams share one store of their own
keys and values: when the search lets one beam go on from another, only a table of who may look where changes.

Axes, beside those of `course_lib.transformer.attention`: K beams of a sentence, N places in the store.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from course_lib.transformer import DecoderLayer, Transformer
from course_lib.translation.decoding.fused_layers import (
    Feed,
    Linear,
    Norm,
    Projections,
    attend,
    merged,
    padding_bias,
)


class CachedSteps:
    """Steps of a reference Transformer's decoder over a batch, with room for `steps` steps of `beam` beams.

    The layers compute in the dtype of `memory`, the generator in its own.
    """

    def __init__(
        self,
        model: Transformer,
        memory: Float[Tensor, "B S D"],
        source_mask: Bool[Tensor, "B 1 S"],
        beam: int,
        steps: int,
    ) -> None:
        self._table = model.target_embedding.table.weight
        self._positions = model.positions.table
        self._norm = Norm(model.decoder_norm, memory.dtype) if model.decoder_norm is not None else None
        self.dtype = model.generator.weight.dtype
        """Of the logits."""
        self._generator = Linear([model.generator], self.dtype)

        # The first step has one beam: all beams begin alike.
        places = 1 + (steps - 1) * beam
        layers: Any = model.decoder_layers
        heads: int = layers[0].self_attention.heads
        self._layers = [_Layer(layer, memory, places) for layer in layers]
        self._layers_dtype, self._heads = memory.dtype, heads
        self._source_bias = padding_bias(source_mask, heads, memory.dtype)
        # Added to the scores: zero where a beam may look, minus infinity elsewhere. One beam sees all.
        self._visible = memory.new_full((len(memory), beam, places), -torch.inf) if beam > 1 else None
        self._steps = self._filled = 0

    def step(self, tokens: Int[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Read one more token of every beam, and give the logits for the one that follows it.

        The first step reads one token a sentence, the start; each later one a token of every beam.
        """
        beams = tokens.shape[1]
        embedded = F.embedding(tokens, self._table) * math.sqrt(self._table.shape[1])
        x = (embedded + self._positions[self._steps].to(embedded.dtype)).to(self._layers_dtype)
        own_bias = self._open_places(beams)
        for layer in self._layers:
            x = layer.step(x, self._filled, own_bias, self._source_bias)
        if self._norm is not None:
            x = self._norm(x)
        self._steps += 1
        self._filled += beams
        return self._generator(x.to(self.dtype))

    def follow(self, parent: Int[Tensor, "B K"]) -> None:
        """Let beam k of each sentence go on from its beam `parent[k]`."""
        if self._visible is not None:
            seen = self._visible[:, :, : self._filled]
            self._visible[:, :, : self._filled] = seen.gather(1, parent.unsqueeze(-1).expand_as(seen))

    def keep(self, sentences: Int[Tensor, "B2"]) -> None:
        """Drop all sentences but these."""
        for layer in self._layers:
            layer.keep(sentences, self._filled)
        if self._source_bias is not None:
            self._source_bias = _kept(self._source_bias, sentences, self._heads)
        if self._visible is not None:
            self._visible = self._visible[sentences]

    def _open_places(self, beams: int) -> Float[Tensor, "BH K N"] | None:
        """Let each of `beams` beams see its own new place, and say what it sees in all."""
        if self._visible is None:
            return None
        if beams == 1:
            self._visible[:, :, 0] = 0.0
            return None
        new = torch.arange(beams, device=self._visible.device)
        self._visible[:, new, self._filled + new] = 0.0
        return self._visible[:, :, : self._filled + beams].repeat_interleave(self._heads, dim=0)


class _Layer:
    """One decoder layer, with what it keeps; projections of the same input stand side by side in one matrix.

    It keeps keys (B*H, d, S) and values (B*H, S, d) of the encoder's output, and keys and values (B*H, N, d)
    of what was written; the places that the beams of a step take lie side by side.
    """

    def __init__(self, layer: DecoderLayer, memory: Float[Tensor, "B S D"], places: int) -> None:
        own, cross, dtype = layer.self_attention, layer.cross_attention, memory.dtype
        connections: Any = layer.sublayers
        self._heads = own.heads
        self._own = Projections(own, ["query", "key", "value"], dtype)
        self._own_output = Linear([own.output_projection], dtype)
        self._cross_query = Projections(cross, ["query"], dtype)
        self._cross_output = Linear([cross.output_projection], dtype)
        self._feed = Feed(layer.feed_forward, dtype)
        self._norms = [Norm(sublayer.norm, dtype) for sublayer in connections]
        self._norm_first = connections[0].norm_first

        keys, values = Projections(cross, ["key", "value"], dtype)(memory)
        self._source = keys.transpose(1, 2).contiguous(), values
        self._written = memory.new_empty(2, len(values), places, values.shape[2])

    def step(
        self, x: Float[Tensor, "B K D"], filled: int, own_bias: Tensor | None, source_bias: Tensor | None
    ) -> Float[Tensor, "B K D"]:
        """Compute the layer for one new token of every beam, with `filled` places taken so far."""

        def look_back(x: Tensor) -> Tensor:
            new, now = self._own(x), filled + x.shape[1]
            self._written[:, :, filled:now] = new[1:]
            keys, values = self._written[:, :, :now]
            output = attend(new[0], keys.transpose(1, 2), values, own_bias)
            return self._own_output(merged(output, self._heads))

        def look_at_source(x: Tensor) -> Tensor:
            output = attend(self._cross_query(x)[0], *self._source, source_bias)
            return self._cross_output(merged(output, self._heads))

        sublayers: tuple[Callable[[Tensor], Tensor], ...] = (look_back, look_at_source, self._feed)
        for sublayer, norm in zip(sublayers, self._norms, strict=True):
            x = x + sublayer(norm(x)) if self._norm_first else norm(x + sublayer(x))
        return x

    def keep(self, sentences: Int[Tensor, "B2"], filled: int) -> None:
        """Drop all sentences but these; of what was written, `filled` places are in use."""
        keys, values = self._source
        self._source = _kept(keys, sentences, self._heads), _kept(values, sentences, self._heads)
        before = self._written.unflatten(1, (-1, self._heads))
        after = before.new_empty(2, len(sentences), *before.shape[2:])
        after[:, :, :, :filled] = before[:, sentences, :, :filled]
        self._written = after.flatten(1, 2)


def _kept(stored: Float[Tensor, "BH ..."], sentences: Int[Tensor, "B2"], heads: int) -> Tensor:
    return stored.unflatten(0, (-1, heads))[sentences].flatten(0, 1)
