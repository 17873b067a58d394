"""Models made ready to decode: which decoder suits which."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from course_lib import transformer as reference
from course_lib.translation.decoding.cached_steps import CachedSteps
from course_lib.translation.decoding.ensemble import Ensemble, EnsembleSteps
from course_lib.translation.decoding.fused_model import FusedTransformer
from course_lib.translation.decoding.steps import Steps
from course_lib.translation.decoding.uncached_steps import UncachedSteps
from course_lib.translation.model.fused.attention import fused_attention
from course_lib.translation.model.fused.dropout import BlockDropout
from course_lib.translation.model.fused.layer_norm import FusedLayerNorm
from course_lib.translation.model.precision import Precision, arithmetic, has_bfloat16, settled

#: On a CPU, bfloat16 decodes half as fast again as float32 at a d_model of 512, and no faster at 192.
HALF_PAYS_FROM = 512


@runtime_checkable
class Ready(Protocol):
    """A model made ready to decode with the weights that it has now."""

    @property
    def model(self) -> nn.Module:
        """What was made ready."""

    @property
    def shares(self) -> bool:
        """Whether several threads may decode with it at a time."""

    def begin(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B 1 S"], beam: int, steps: int
    ) -> Steps:
        """Read the source of a batch, and begin to decode it: at most `steps` tokens of `beam` beams."""


def ready(model: Any, precision: Precision = "float32") -> Ready:
    """Make a model ready to decode. It has `encode`, `decode` and `generator`, or is an `Ensemble`."""
    if isinstance(model, Ensemble):
        return ReadyEnsemble(model, [ready(member, precision) for member in model])
    if not has_reference_insides(model):
        return ReadyModel(model, precision)
    weight = model.generator.weight
    pays = weight.device.type != "cpu" or weight.shape[1] >= HALF_PAYS_FROM
    # What was trained in bfloat16 may be asked to translate where the hardware has none.
    in_half = pays and settled(precision, weight.device) == "bfloat16" and has_bfloat16(weight.device)
    return ReadyReference(model, FusedTransformer(model, torch.bfloat16 if in_half else weight.dtype))


@dataclass(frozen=True)
class ReadyReference:
    """The reference's Transformer: its insides are known, so what was computed for earlier tokens is kept."""

    model: nn.Module
    fused: FusedTransformer
    shares: bool = True

    def begin(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B 1 S"], beam: int, steps: int
    ) -> Steps:
        """Read the source of a batch, and begin to decode it."""
        return CachedSteps(self.fused, self.fused.encode(source, source_mask), source_mask, beam, steps)


@dataclass(frozen=True)
class ReadyModel:
    """Any other model. A student's need not bear several threads."""

    model: Any
    precision: Precision
    shares: bool = False

    def begin(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B 1 S"], beam: int, steps: int
    ) -> Steps:
        """Read the source of a batch, and begin to decode it."""
        with arithmetic(self.precision, source.device):
            memory = self.model.encode(source, source_mask)
            return UncachedSteps(self.model, memory, source_mask, self.precision)


@dataclass(frozen=True)
class ReadyEnsemble:
    """Several models that decode together."""

    model: Ensemble
    members: Sequence[Ready]

    @property
    def shares(self) -> bool:
        """Whether all of them bear several threads."""
        return all(member.shares for member in self.members)

    def begin(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B 1 S"], beam: int, steps: int
    ) -> Steps:
        """Let each of them read the source of a batch, and begin to decode it."""
        return EnsembleSteps([member.begin(source, source_mask, beam, steps) for member in self.members])


_INSIDES = {
    *(reference.Transformer, reference.EncoderLayer, reference.DecoderLayer, reference.SublayerConnection),
    *(reference.MultiHeadAttention, reference.FeedForward, reference.LayerNorm),
    *(reference.TokenEmbedding, reference.PositionalEncoding),
    *(nn.Linear, nn.Embedding, nn.Dropout, nn.ModuleList),
    # What training puts in their places computes the same.
    *(FusedLayerNorm, BlockDropout),
}
_ATTENTION = (reference.scaled_dot_product_attention, fused_attention)


def has_reference_insides(model: nn.Module) -> TypeGuard[reference.Transformer]:
    """Say whether a model is the reference's through and through, so that its decoder can keep a cache.

    A student's parts promise what they compute, and not what they are made of.
    """
    return type(model) is reference.Transformer and all(
        type(module) in _INSIDES and getattr(module, "attention", _ATTENTION[0]) in _ATTENTION
        for module in model.modules()
    )
