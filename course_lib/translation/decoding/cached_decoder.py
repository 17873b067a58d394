"""The reference's decoder with a key/value cache, which processes one token at a time.

Without a cache, each step computes the whole prefix again. With a cache, a step computes only the new token's
projections and its attention over the cached keys and values.

No keys or values are copied for the beams of a sentence. The keys and values of the source are computed once,
and all beams attend to them. The beams also share one cache for the keys and values of their prefixes: when
the search reorders the beams, it only updates a table of the cache slots that each beam may attend to.

Axes, in addition to those of `course_lib.transformer.attention`: K beams of a sentence, N cache slots.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from course_lib.translation.decoding.inference_model import (
    InferenceDecoderLayer,
    InferenceTransformer,
    Sublayer,
    attend,
    merge_heads,
    padding_bias,
    residual_sublayers,
)

#: The number of keys is padded so that a query's scores fill a multiple of this many bytes, the width of a
#: CPU's vector registers. In PyTorch, a softmax over 15 scores takes 10 times as long as one over 16.
VECTOR_BYTES = 64


class CachedDecoder:
    """A Transformer's decoder for a batch, with a cache for the prefixes of `beam` beams of each sentence.

    `memory` is the encoder's output, and `source_mask` masks its padding.
    """

    def __init__(
        self,
        model: InferenceTransformer,
        memory: Float[Tensor, "B S D"],
        source_mask: Bool[Tensor, "B 1 S"],
        beam: int,
    ) -> None:
        self._model = model
        self.dtype = model.logits_dtype
        self._block = VECTOR_BYTES // memory.itemsize
        padding = -memory.shape[1] % self._block
        self._layers = [_CachedLayer(layer, memory, padding) for layer in model.decoder_layers]
        bias = padding_bias(F.pad(source_mask, (0, padding)), memory.dtype)
        self._source_bias = None if bias is None else bias.squeeze(1).repeat_interleave(model.heads, dim=0)
        # A bias added to the scores: zero for slots that a beam may attend to, minus infinity for others.
        self._visible = memory.new_empty(len(memory), beam, 0)
        self._steps = self._filled = 0

    def step(self, tokens: Int[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Process the next token of every beam, and return the logits of the token after it."""
        beams = tokens.shape[1]
        x = self._model.embed_target(tokens, self._steps)
        self_bias = self._add_slots(beams)
        for layer in self._layers:
            x = layer.step(x, self._filled, self_bias, self._source_bias)
        x = self._model.decoder_norm(x)
        self._steps += 1
        self._filled += beams
        return self._model.generator(x.to(self.dtype))

    def reorder_beams(self, parent: Int[Tensor, "B K"]) -> None:
        """Reorder the beams: beam k of sentence b continues the previous beam `parent[b, k]`."""
        self._visible = self._visible.gather(1, parent.unsqueeze(-1).expand_as(self._visible))

    def keep_sentences(self, sentences: Int[Tensor, "B2"]) -> None:
        """Remove all sentences from the batch except those at the indices `sentences`."""
        for layer in self._layers:
            layer.keep_sentences(sentences)
        if self._source_bias is not None:
            self._source_bias = _select(self._source_bias, sentences, self._model.heads)
        self._visible = self._visible[sentences]

    def _add_slots(self, beams: int) -> Float[Tensor, "BH K N"]:
        """Assign a new slot to each beam, visible only to this beam and its continuations.

        Return the bias that masks the slots of other beams and free slots.
        """
        missing = self._filled + beams - self._visible.shape[2]
        if missing > 0:
            added = missing + -missing % self._block
            self._visible = F.pad(self._visible, (0, added), value=-torch.inf)
            for layer in self._layers:
                layer.add_slots(added)
        new = torch.arange(beams, device=self._visible.device)
        # The slot of the start token is visible to all beams.
        rows = new if self._steps else slice(None)
        self._visible[:, rows, self._filled + new] = 0.0
        return self._visible[:, :beams].repeat_interleave(self._model.heads, dim=0)


class _CachedLayer:
    """A decoder layer and its cache for a batch.

    The cache holds keys (B*H, d, S) and values (B*H, S, d) of the encoder's output, and keys and values (B*H,
    N, d) of the prefix; the slots of a step's beams are adjacent. All tensors are contiguous, because matrix
    products in bfloat16 would copy them otherwise.
    """

    def __init__(self, layer: InferenceDecoderLayer, memory: Float[Tensor, "B S D"], padding: int) -> None:
        """Compute the keys and values of the encoder's output, and append `padding` zeros to them."""
        self._layer, self._heads = layer, layer.heads
        keys, values = F.pad(layer.cross_memory(memory), (0, 0, 0, padding)).flatten(1, 2)
        self._source = keys.transpose(1, 2).contiguous(), values
        self._prefix = values.new_empty(2, len(values), 0, values.shape[2])

    def add_slots(self, count: int) -> None:
        """Append free slots. They are zero, because even a masked NaN would spoil the products."""
        old = self._prefix
        self._prefix = torch.cat([old, old.new_zeros(2, old.shape[1], count, old.shape[3])], dim=2)

    def step(
        self, x: Float[Tensor, "B K D"], filled: int, self_bias: Tensor, source_bias: Tensor | None
    ) -> Float[Tensor, "B K D"]:
        """Compute the output for one new token of every beam.

        `filled` is the number of slots in use. `self_bias` and `source_bias` are added to the scores of
        self-attention and cross-attention; None masks nothing.
        """
        layer = self._layer

        def self_attention(x: Tensor) -> Tensor:
            projected, now = layer.self_projections(x), filled + x.shape[1]
            self._prefix.unflatten(1, (-1, self._heads))[:, :, :, filled:now] = projected[1:]
            keys, values = self._prefix
            output = attend(projected[0].flatten(0, 1), keys.transpose(1, 2), values, self_bias)
            return layer.self_output(merge_heads(output, self._heads))

        def cross_attention(x: Tensor) -> Tensor:
            output = attend(layer.cross_query(x)[0].flatten(0, 1), *self._source, source_bias)
            return layer.cross_output(merge_heads(output, self._heads))

        sublayers: list[Sublayer] = [self_attention, cross_attention, layer.feed_forward]
        return residual_sublayers(x, sublayers, layer.norms, layer.norm_first)

    def keep_sentences(self, sentences: Int[Tensor, "B2"]) -> None:
        """Keep only the sentences at the indices `sentences`."""
        keys, values = self._source
        self._source = _select(keys, sentences, self._heads), _select(values, sentences, self._heads)
        self._prefix = _select(self._prefix, sentences, self._heads, axis=1)


def _select(
    stored: Float[Tensor, "... BH _ _"], sentences: Int[Tensor, "B2"], heads: int, axis: int = 0
) -> Tensor:
    return stored.unflatten(axis, (-1, heads)).index_select(axis, sentences).flatten(axis, axis + 1)
