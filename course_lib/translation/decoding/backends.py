"""Decoder backends: how a model computes the next token's logits, with a key/value cache or without."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib import transformer as reference
from course_lib.transformer import causal_mask
from course_lib.translation.decoding.cached_decoder import CachedDecoder
from course_lib.translation.decoding.fused_model import FusedTransformer
from course_lib.translation.model.fast_layers import FastDecoderLayer, FastEncoderLayer
from course_lib.translation.model.fused import BlockDropout, FusedLayerNorm, fused_attention
from course_lib.translation.model.precision import Precision, autocast, has_bfloat16, resolve_precision
from course_lib.translation.model.seq2seq import Seq2SeqModel, TransformerModel

#: On a CPU, bfloat16 decodes 1.5 times as fast as float32 with a d_model of 512, but no faster with 192.
BFLOAT16_MIN_D_MODEL = 512


@runtime_checkable
class IncrementalDecoder(Protocol):
    """A decoder that reads the beams of a batch of sentences token by token."""

    dtype: torch.dtype
    """The dtype of the logits, or a smaller one."""

    def step(self, tokens: Int[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Read one more token of every beam, and return the logits of the next.

        The first step reads one token of each sentence, the start; later steps read a token of every beam.
        """

    def reorder_beams(self, parent: Int[Tensor, "B K"]) -> None:
        """Let beam k of each sentence continue its beam `parent[k]`."""

    def keep_sentences(self, sentences: Int[Tensor, "B2"]) -> None:
        """Drop all sentences but these."""


@runtime_checkable
class DecoderBackend(Protocol):
    """A model prepared for decoding with its current weights."""

    @property
    def module(self) -> nn.Module:
        """The model itself."""

    @property
    def thread_safe(self) -> bool:
        """Whether several threads may decode with it at the same time."""

    def start(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B 1 S"], beam: int, max_steps: int
    ) -> IncrementalDecoder:
        """Encode a batch, and return a decoder for at most `max_steps` tokens of `beam` beams."""


class Ensemble(nn.ModuleList):
    """Models with the same vocabularies that decode together (Sutskever et al., arXiv 1409.3215, section 3).

    They started from different random weights, so their errors differ, and what most of them predict is more
    often right than what a single one predicts.
    """

    def __init__(self, models: Sequence[TransformerModel]) -> None:
        super().__init__(cast(Iterable[nn.Module], models))

    @property
    def members(self) -> list[TransformerModel]:
        """The models."""
        return list(cast(Iterable[TransformerModel], self))


def make_backend(model: Seq2SeqModel | Ensemble, precision: Precision = "float32") -> DecoderBackend:
    """Prepare a model for decoding with the fastest backend that supports it."""
    if isinstance(model, Ensemble):
        return EnsembleBackend(model, [make_backend(member, precision) for member in model.members])
    if not supports_cache(model):
        return UncachedBackend(model, precision)
    weight = model.generator.weight
    worthwhile = weight.device.type != "cpu" or weight.shape[1] >= BFLOAT16_MIN_D_MODEL
    # A model trained in bfloat16 may translate on hardware without it.
    bfloat16 = (
        worthwhile
        and resolve_precision(precision, weight.device) == "bfloat16"
        and has_bfloat16(weight.device)
    )
    return CachedBackend(model, FusedTransformer(model, torch.bfloat16 if bfloat16 else weight.dtype))


def supports_cache(model: object) -> TypeGuard[reference.Transformer]:
    """Return whether a model is built of the reference's classes, on whose internals caching relies.

    A student's classes promise what they compute, but not how. Subclasses of the reference's don't count,
    because they may override anything.
    """
    return type(model) is reference.Transformer and all(
        type(module) in _SUPPORTED_MODULES and getattr(module, "attention", None) in _SUPPORTED_ATTENTION
        for module in model.modules()
    )


_SUPPORTED_MODULES = {
    *(reference.Transformer, reference.EncoderLayer, reference.DecoderLayer, reference.SublayerConnection),
    *(reference.MultiHeadAttention, reference.FeedForward, reference.LayerNorm),
    *(reference.TokenEmbedding, reference.PositionalEncoding),
    *(nn.Linear, nn.Embedding, nn.Dropout, nn.ModuleList, FusedLayerNorm, BlockDropout),
    *(FastEncoderLayer, FastDecoderLayer),
}
_SUPPORTED_ATTENTION = (None, reference.scaled_dot_product_attention, fused_attention)


@dataclass(frozen=True)
class CachedBackend:
    """The reference's Transformer, with a key/value cache."""

    module: nn.Module
    fused: FusedTransformer
    thread_safe: bool = True

    def start(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B 1 S"], beam: int, max_steps: int
    ) -> IncrementalDecoder:
        """Encode a batch and project its keys and values."""
        return CachedDecoder(self.fused, self.fused.encode(source, source_mask), source_mask, beam, max_steps)


class UncachedBackend:
    """Any other model, which recomputes the whole prefix for every token. It may not be thread-safe."""

    thread_safe = False

    def __init__(self, model: Seq2SeqModel, precision: Precision) -> None:
        assert isinstance(model, nn.Module), "a Seq2SeqModel is a module"
        self.module: nn.Module = model
        self._model: Seq2SeqModel = model
        self._precision = precision

    def start(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B 1 S"], beam: int, max_steps: int
    ) -> IncrementalDecoder:
        """Encode a batch."""
        with autocast(self._precision, source.device):
            memory = self._model.encode(source, source_mask)
        return UncachedDecoder(self._model, memory, source_mask, self._precision)


class UncachedDecoder:
    """A decoder without a cache: each step decodes the whole prefix, as the reference's search does."""

    def __init__(
        self,
        model: Seq2SeqModel,
        memory: Float[Tensor, "B S D"],
        source_mask: Bool[Tensor, "B 1 S"],
        precision: Precision,
    ) -> None:
        self.dtype = memory.dtype
        self._model = model
        self._memory = memory
        self._source_mask = source_mask
        self._precision: Precision = precision
        self._prefix = torch.empty(len(memory), 1, 0, dtype=torch.int64, device=memory.device)

    def step(self, tokens: Int[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Append a token to every beam's prefix, and return the logits of the next."""
        beams = tokens.shape[1]
        prefix = torch.cat([self._prefix.expand(-1, beams, -1), tokens.unsqueeze(-1)], dim=2)
        self._prefix = prefix
        with autocast(self._precision, tokens.device):
            hidden = self._model.decode(
                self._memory.repeat_interleave(beams, dim=0),
                self._source_mask.repeat_interleave(beams, dim=0),
                prefix.flatten(0, 1),
                causal_mask(prefix.shape[2]).to(tokens.device),
            )
            logits: Tensor = self._model.generator(hidden[:, -1])
        return logits.unflatten(0, tokens.shape)

    def reorder_beams(self, parent: Int[Tensor, "B K"]) -> None:
        """Let beam k of each sentence continue its beam `parent[k]`."""
        self._prefix = self._prefix.gather(1, parent.unsqueeze(-1).expand(-1, -1, self._prefix.shape[2]))

    def keep_sentences(self, sentences: Int[Tensor, "B2"]) -> None:
        """Drop all sentences but these."""
        self._memory, self._source_mask = self._memory[sentences], self._source_mask[sentences]
        self._prefix = self._prefix[sentences]


@dataclass(frozen=True)
class EnsembleBackend:
    """Several models that decode together."""

    module: Ensemble
    members: Sequence[DecoderBackend]

    @property
    def thread_safe(self) -> bool:
        """Whether all members are thread-safe."""
        return all(member.thread_safe for member in self.members)

    def start(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B 1 S"], beam: int, max_steps: int
    ) -> IncrementalDecoder:
        """Encode a batch with every member."""
        return EnsembleDecoder(
            [member.start(source, source_mask, beam, max_steps) for member in self.members]
        )


class EnsembleDecoder:
    """The decoders of all members. A token's probability is the mean of theirs."""

    def __init__(self, members: Sequence[IncrementalDecoder]) -> None:
        self._members = members
        dtypes = [member.dtype for member in members]
        self.dtype = max(dtypes, key=lambda dtype: torch.finfo(dtype).bits)

    def step(self, tokens: Int[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Read one more token of every beam, and return the log-probabilities of the next."""
        at_least = torch.promote_types(self.dtype, torch.float32)
        each = [member.step(tokens).to(at_least).log_softmax(dim=-1) for member in self._members]
        return torch.stack(each).logsumexp(dim=0) - math.log(len(each))

    def reorder_beams(self, parent: Int[Tensor, "B K"]) -> None:
        """Let beam k of each sentence continue its beam `parent[k]`."""
        for member in self._members:
            member.reorder_beams(parent)

    def keep_sentences(self, sentences: Int[Tensor, "B2"]) -> None:
        """Drop all sentences but these."""
        for member in self._members:
            member.keep_sentences(sentences)
