"""The reference's decoder, one token at a time: what a layer has computed for earlier tokens is kept.

Without it, token t is written by computing all t tokens before it anew. With it, a step costs what one token
costs: its own projections, and one look at the kept keys and values.

Two things are never copied, however many beams a sentence has. The keys and values of its source are
projected once, and all its beams look at them as so many queries. And its beams share one store of their own
keys and values: when the search lets one beam go on from another, only a table of who may look where changes.

Axes, beside those of `course_lib.transformer.attention`: K beams of a sentence, N places in the store.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.transformer import DecoderLayer, LayerNorm, Transformer


class CachedDecoder:
    """The decoder of a reference Transformer. It takes the model's weights as they are when it is made.

    The layers compute in `dtype`, the generator in its own.
    """

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._table = model.target_embedding.table.weight
        self._positions = model.positions.table
        self._layers = [_Layer(layer, dtype) for layer in model.decoder_layers]
        self._norm = _Norm(model.decoder_norm, dtype) if model.decoder_norm is not None else None
        self._generator = _Linear([model.generator], model.generator.weight.dtype)

    def begin(
        self, memory: Float[Tensor, "B S D"], source_mask: Bool[Tensor, "B 1 S"], beam: int, steps: int
    ) -> "Cache":
        """Project the encoder's output for every layer, and make room for `steps` steps of `beam` beams."""
        sentences, _, d_model = memory.shape
        heads = self._layers[0].heads
        lowest = torch.finfo(memory.dtype).min
        # The first step has one beam: all beams begin alike.
        places = 1 + (steps - 1) * beam
        return Cache(
            source=[layer.project_source(memory) for layer in self._layers],
            source_bias=torch.zeros_like(source_mask, dtype=memory.dtype)
            .masked_fill(~source_mask, lowest)
            .repeat_interleave(heads, dim=0),
            own=[
                (
                    memory.new_empty(sentences * heads, places, d_model // heads),
                    memory.new_empty(sentences * heads, places, d_model // heads),
                )
                for _ in self._layers
            ],
            visible=memory.new_full((sentences, beam, places), -torch.inf) if beam > 1 else None,
            heads=heads,
        )

    def step(self, tokens: Int[Tensor, "B K"], cache: "Cache") -> Float[Tensor, "B K V"]:
        """Read one more token of every beam, and give the logits for the one that follows it.

        The first step reads one token a sentence, the start; each later one a token of every beam.
        """
        sentences, beams = tokens.shape
        embedded = F.embedding(tokens.flatten(), self._table) * math.sqrt(self._table.shape[1])
        x = (embedded + self._positions[cache.steps].to(embedded.dtype)).to(self._dtype)
        bias = cache.open_places(beams)
        for number, layer in enumerate(self._layers):
            x = layer.step(x, beams, cache, number, bias)
        if self._norm is not None:
            x = self._norm(x)
        cache.steps += 1
        cache.filled += beams
        return self._generator(x.to(self._table.dtype)).unflatten(0, (sentences, beams))


@dataclass
class Cache:
    """What the layers keep of the sentences in work. Every list has an entry for each layer."""

    source: list[tuple[Tensor, Tensor]]
    """Keys (B*H, d, S) and values (B*H, S, d) of the encoder's output."""
    source_bias: Float[Tensor, "BH 1 S"]
    """Added to the scores: zero at real tokens, the lowest number at padding."""
    own: list[tuple[Tensor, Tensor]]
    """Keys and values (B*H, N, d) of what was written; the places of a step's beams lie side by side."""
    visible: Float[Tensor, "B K N"] | None
    """Added to the scores: zero where a beam may look, minus infinity elsewhere. None for a single beam."""
    heads: int
    steps: int = 0
    """How many steps were made."""
    filled: int = 0
    """How many places they took."""

    def open_places(self, beams: int) -> Float[Tensor, "BH K N"] | None:
        """Let each of `beams` beams see its own new place, and say what it sees in all."""
        if self.visible is None:
            return None
        new = torch.arange(beams, device=self.visible.device)
        if beams == 1:
            self.visible[:, :, 0] = 0.0
            return None
        self.visible[:, new, self.filled + new] = 0.0
        bias = self.visible[:, :, : self.filled + beams]
        return bias.repeat_interleave(self.heads, dim=0)

    def follow(self, parent: Int[Tensor, "B K"]) -> None:
        """Let beam k of each sentence go on from its beam `parent[k]`."""
        if self.visible is not None:
            seen = self.visible[:, :, : self.filled]
            self.visible[:, :, : self.filled] = seen.gather(1, parent.unsqueeze(-1).expand_as(seen))

    def keep(self, sentences: Int[Tensor, "B2"]) -> None:
        """Drop all sentences but these."""

        def kept(stored: Tensor) -> Tensor:
            return stored.unflatten(0, (-1, self.heads))[sentences].flatten(0, 1)

        self.source = [(kept(keys), kept(values)) for keys, values in self.source]
        self.source_bias = kept(self.source_bias)
        self.own = [(kept(keys), kept(values)) for keys, values in self.own]
        if self.visible is not None:
            self.visible = self.visible[sentences]


class _Layer:
    """One decoder layer, its projections of the same input side by side in one matrix."""

    def __init__(self, layer: DecoderLayer, dtype: torch.dtype) -> None:
        own, cross, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
        self.heads = own.heads
        self._own = _Linear([own.query_projection, own.key_projection, own.value_projection], dtype)
        self._own_output = _Linear([own.output_projection], dtype)
        self._cross_query = _Linear([cross.query_projection], dtype)
        self._cross_source = _Linear([cross.key_projection, cross.value_projection], dtype)
        self._cross_output = _Linear([cross.output_projection], dtype)
        self._inner, self._outer = (
            _Linear([each], dtype) for each in (feed_forward.inner, feed_forward.outer)
        )
        self._norms = [_Norm(sublayer.norm, dtype) for sublayer in layer.sublayers]
        self._norm_first = layer.sublayers[0].norm_first

    def project_source(self, memory: Float[Tensor, "B S D"]) -> tuple[Tensor, Tensor]:
        """Give the keys, ready to be multiplied, and the values of the encoder's output."""
        both = self._cross_source(memory).unflatten(-1, (2, self.heads, -1))
        keys, values = both.permute(2, 0, 3, 1, 4).flatten(1, 2)
        return keys.transpose(1, 2).contiguous(), values

    def step(
        self, x: Float[Tensor, "BK D"], beams: int, cache: "Cache", number: int, bias: Tensor | None
    ) -> Float[Tensor, "BK D"]:
        """Compute the layer, which is number `number`, for one new token of every beam."""
        sublayers = (
            lambda x: self._look_back(x, beams, cache, number, bias),
            lambda x: self._look_at_source(x, beams, cache, number),
            lambda x: self._outer(self._inner(x).relu_()),
        )
        for sublayer, norm in zip(sublayers, self._norms, strict=True):
            x = x + sublayer(norm(x)) if self._norm_first else norm(x + sublayer(x))
        return x

    def _look_back(self, x: Tensor, beams: int, cache: "Cache", number: int, bias: Tensor | None) -> Tensor:
        new = self._own(x).unflatten(0, (-1, beams)).unflatten(-1, (3, self.heads, -1))
        query, key, value = new.permute(2, 0, 3, 1, 4).flatten(1, 2)
        keys, values = cache.own[number]
        filled = cache.filled + beams
        keys[:, cache.filled : filled] = key
        values[:, cache.filled : filled] = value
        output = _attend(query, keys[:, :filled].transpose(1, 2), values[:, :filled], bias)
        return self._own_output(self._merge(output))

    def _look_at_source(self, x: Tensor, beams: int, cache: "Cache", number: int) -> Tensor:
        query = self._cross_query(x).unflatten(0, (-1, beams)).unflatten(-1, (self.heads, -1))
        keys, values = cache.source[number]
        output = _attend(query.transpose(1, 2).flatten(0, 1), keys, values, cache.source_bias)
        return self._cross_output(self._merge(output))

    def _merge(self, x: Float[Tensor, "BH K d"]) -> Float[Tensor, "BK D"]:
        return x.unflatten(0, (-1, self.heads)).transpose(1, 2).flatten(2).flatten(0, 1)


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
