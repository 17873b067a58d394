"""The reference's decoder, one token at a time: what a layer has computed for earlier tokens is kept.

Without that, token t is written by computing all t tokens before it anew. With it, a step costs what one
token costs: its own projections, and one look at the kept keys and values.

Two things are never copied, however many beams a sentence has. The keys and values of its source are
projected once, and all its beams look at them as so many queries. And its beams share one store of their own
keys and values: when the search lets one beam go on from another, only a table of who may look where changes.

Axes, beside those of `course_lib.transformer.attention`: K beams of a sentence, N places in the store.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.transformer import DecoderLayer, LayerNorm, Transformer


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
        self._norm = _Norm(model.decoder_norm, memory.dtype) if model.decoder_norm is not None else None
        self._generator = _Linear([model.generator], model.generator.weight.dtype)

        # The first step has one beam: all beams begin alike.
        places = 1 + (steps - 1) * beam
        heads = model.decoder_layers[0].self_attention.heads
        self._layers = [_Layer(layer, memory, places) for layer in model.decoder_layers]
        self._heads = heads
        # Added to the scores: zero at real tokens, the lowest number at padding.
        lowest = torch.finfo(memory.dtype).min
        bias = torch.zeros_like(source_mask, dtype=memory.dtype).masked_fill(~source_mask, lowest)
        self._source_bias = bias.repeat_interleave(heads, dim=0)
        # Added to the scores: zero where a beam may look, minus infinity elsewhere. One beam sees all.
        self._visible = memory.new_full((len(memory), beam, places), -torch.inf) if beam > 1 else None
        self._steps = self._filled = 0

    def step(self, tokens: Int[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Read one more token of every beam, and give the logits for the one that follows it.

        The first step reads one token a sentence, the start; each later one a token of every beam.
        """
        sentences, beams = tokens.shape
        embedded = F.embedding(tokens.flatten(), self._table) * math.sqrt(self._table.shape[1])
        x = embedded + self._positions[self._steps].to(embedded.dtype)
        x = x.to(self._source_bias.dtype)
        own_bias = self._open_places(beams)
        for layer in self._layers:
            x = layer.step(x, beams, self._filled, own_bias, self._source_bias)
        if self._norm is not None:
            x = self._norm(x)
        self._steps += 1
        self._filled += beams
        return self._generator(x.to(self._table.dtype)).unflatten(0, (sentences, beams))

    def follow(self, parent: Int[Tensor, "B K"]) -> None:
        """Let beam k of each sentence go on from its beam `parent[k]`."""
        if self._visible is not None:
            seen = self._visible[:, :, : self._filled]
            self._visible[:, :, : self._filled] = seen.gather(1, parent.unsqueeze(-1).expand_as(seen))

    def keep(self, sentences: Int[Tensor, "B2"]) -> None:
        """Drop all sentences but these."""
        for layer in self._layers:
            layer.keep(sentences)
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
        own, cross, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
        dtype, self._heads = memory.dtype, own.heads
        self._own = _Linear([own.query_projection, own.key_projection, own.value_projection], dtype)
        self._own_output = _Linear([own.output_projection], dtype)
        self._cross_query = _Linear([cross.query_projection], dtype)
        self._cross_output = _Linear([cross.output_projection], dtype)
        self._inner = _Linear([feed_forward.inner], dtype)
        self._outer = _Linear([feed_forward.outer], dtype)
        self._norms = [_Norm(sublayer.norm, dtype) for sublayer in layer.sublayers]
        self._norm_first = layer.sublayers[0].norm_first

        both = _Linear([cross.key_projection, cross.value_projection], dtype)(memory)
        keys, values = both.unflatten(-1, (2, self._heads, -1)).permute(2, 0, 3, 1, 4).flatten(1, 2)
        self._source = keys.transpose(1, 2).contiguous(), values
        room = (values.shape[0], places, values.shape[2])
        self._written = memory.new_empty(room), memory.new_empty(room)

    def step(
        self,
        x: Float[Tensor, "BK D"],
        beams: int,
        filled: int,
        own_bias: Tensor | None,
        source_bias: Tensor,
    ) -> Float[Tensor, "BK D"]:
        """Compute the layer for one new token of every beam, with `filled` places taken so far."""
        sublayers = (
            lambda x: self._look_back(x, beams, filled, own_bias),
            lambda x: self._look_at_source(x, beams, source_bias),
            lambda x: self._outer(self._inner(x).relu_()),
        )
        for sublayer, norm in zip(sublayers, self._norms, strict=True):
            x = x + sublayer(norm(x)) if self._norm_first else norm(x + sublayer(x))
        return x

    def keep(self, sentences: Int[Tensor, "B2"]) -> None:
        """Drop all sentences but these."""
        keys, values = self._source
        self._source = _kept(keys, sentences, self._heads), _kept(values, sentences, self._heads)
        keys, values = self._written
        self._written = _kept(keys, sentences, self._heads), _kept(values, sentences, self._heads)

    def _look_back(self, x: Tensor, beams: int, filled: int, bias: Tensor | None) -> Tensor:
        new = self._own(x).unflatten(0, (-1, beams)).unflatten(-1, (3, self._heads, -1))
        query, key, value = new.permute(2, 0, 3, 1, 4).flatten(1, 2)
        keys, values = self._written
        now = filled + beams
        keys[:, filled:now] = key
        values[:, filled:now] = value
        output = _attend(query, keys[:, :now].transpose(1, 2), values[:, :now], bias)
        return self._own_output(self._merge(output))

    def _look_at_source(self, x: Tensor, beams: int, bias: Tensor) -> Tensor:
        query = self._cross_query(x).unflatten(0, (-1, beams)).unflatten(-1, (self._heads, -1))
        output = _attend(query.transpose(1, 2).flatten(0, 1), *self._source, bias)
        return self._cross_output(self._merge(output))

    def _merge(self, x: Float[Tensor, "BH K d"]) -> Float[Tensor, "BK D"]:
        return x.unflatten(0, (-1, self._heads)).transpose(1, 2).flatten(2).flatten(0, 1)


def _kept(stored: Float[Tensor, "BH ..."], sentences: Int[Tensor, "B2"], heads: int) -> Tensor:
    return stored.unflatten(0, (-1, heads))[sentences].flatten(0, 1)


class _Linear:
    """Some layers with the same input, as one: their outputs stand side by side."""

    def __init__(self, layers: Sequence[nn.Linear], dtype: torch.dtype) -> None:
        weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
        one = len(layers) == 1
        self._weight = (weights[0] if one else torch.cat(weights)).to(dtype)
        self._bias = (biases[0] if one else torch.cat(biases)).to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self._weight, self._bias)


class _Norm:
    """`LayerNorm` by torch's kernel, which is the same function in one pass."""

    def __init__(self, norm: LayerNorm, dtype: torch.dtype) -> None:
        self._scale, self._shift, self._eps = norm.scale.to(dtype), norm.shift.to(dtype), norm.eps

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self._scale.shape, self._scale, self._shift, self._eps)


def _attend(
    query: Float[Tensor, "BH K d"],
    keys: Float[Tensor, "BH d N"],
    values: Float[Tensor, "BH N d"],
    bias: Float[Tensor, "BH _ N"] | None,
) -> Float[Tensor, "BH K d"]:
    scale = query.shape[-1] ** -0.5
    scores = torch.bmm(query * scale, keys) if bias is None else torch.baddbmm(bias, query, keys, alpha=scale)
    return torch.bmm(scores.softmax(dim=-1), values)
