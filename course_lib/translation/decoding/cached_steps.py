"""The reference's decoder, one token at a time: what a layer has computed for earlier tokens is kept.

Without that, token t is written by computing all t tokens before it anew. With it, a step costs what one
token costs: its own projections, and one look at the kept keys and values.

Two things are never copied, however many beams a sentence has. The keys and values of its source are
projected once, and all its beams look at them as so many queries. And its beams share one store of their own
keys and values: when the search lets one beam go on from another, only a table of who may look where changes.

Axes, beside those of `course_lib.transformer.attention`: K beams of a sentence, N places in the store.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_lib.translation.decoding.fused_layers import attend, merged, padding_bias
from course_lib.translation.decoding.fused_model import FusedDecoderLayer, FusedTransformer


class CachedSteps:
    """Steps of a Transformer's decoder over a batch, with room for `steps` steps of `beam` beams."""

    def __init__(
        self,
        model: FusedTransformer,
        memory: Float[Tensor, "B S D"],
        source_mask: Bool[Tensor, "B 1 S"],
        beam: int,
        steps: int,
    ) -> None:
        self._model = model
        self.dtype = model.logits_dtype
        """Of the logits."""
        # The first step has one beam: all beams begin alike.
        places = 1 + (steps - 1) * beam
        self._layers = [_Layer(layer, memory, places) for layer in model.decoder_layers]
        bias = padding_bias(source_mask, memory.dtype)
        self._source_bias = None if bias is None else bias.squeeze(1).repeat_interleave(model.heads, dim=0)
        # Added to the scores: zero where a beam may look, minus infinity elsewhere. One beam sees all.
        self._visible = memory.new_full((len(memory), beam, places), -torch.inf) if beam > 1 else None
        self._steps = self._filled = 0

    def step(self, tokens: Int[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Read one more token of every beam, and give the logits for the one that follows it.

        The first step reads one token a sentence, the start; each later one a token of every beam.
        """
        beams = tokens.shape[1]
        x = self._model.embed_target(tokens, self._steps)
        own_bias = self._open_places(beams)
        for layer in self._layers:
            x = layer.step(x, self._filled, own_bias, self._source_bias)
        if self._model.decoder_norm is not None:
            x = self._model.decoder_norm(x)
        self._steps += 1
        self._filled += beams
        return self._model.generator(x.to(self.dtype))

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
            self._source_bias = _kept(self._source_bias, sentences, self._model.heads)
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
        return self._visible[:, :, : self._filled + beams].repeat_interleave(self._model.heads, dim=0)


class _Layer:
    """One decoder layer at work on a batch, with what it keeps.

    That is keys (B*H, d, S) and values (B*H, S, d) of the encoder's output, and keys and values (B*H, N, d)
    of what was written; the places that the beams of a step take lie side by side.
    """

    def __init__(self, layer: FusedDecoderLayer, memory: Float[Tensor, "B S D"], places: int) -> None:
        self._layer, self._heads = layer, layer.heads
        keys, values = layer.cross_memory(memory)
        self._source = keys.transpose(1, 2).contiguous(), values
        self._written = memory.new_empty(2, len(values), places, values.shape[2])

    def step(
        self, x: Float[Tensor, "B K D"], filled: int, own_bias: Tensor | None, source_bias: Tensor | None
    ) -> Float[Tensor, "B K D"]:
        """Compute the layer for one new token of every beam, with `filled` places taken so far."""
        layer = self._layer

        def look_back(x: Tensor) -> Tensor:
            new, now = layer.own(x), filled + x.shape[1]
            self._written[:, :, filled:now] = new[1:]
            keys, values = self._written[:, :, :now]
            output = attend(new[0], keys.transpose(1, 2), values, own_bias)
            return layer.own_output(merged(output, self._heads))

        def look_at_source(x: Tensor) -> Tensor:
            output = attend(layer.cross_query(x)[0], *self._source, source_bias)
            return layer.cross_output(merged(output, self._heads))

        sublayers: tuple[Callable[[Tensor], Tensor], ...] = (look_back, look_at_source, layer.feed)
        for sublayer, norm in zip(sublayers, layer.norms, strict=True):
            x = x + sublayer(norm(x)) if layer.norm_first else norm(x + sublayer(x))
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
