"""Which decoder suits which model."""

from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from course_lib import transformer as reference
from course_lib.translation.decoding.cached_steps import CachedSteps
from course_lib.translation.decoding.fused_model import FusedTransformer
from course_lib.translation.decoding.uncached_steps import UncachedSteps
from course_lib.translation.fused_attention import fused_attention
from course_lib.translation.kernels.dropout import BlockDropout
from course_lib.translation.kernels.layer_norm import FusedLayerNorm
from course_lib.translation.precision import Precision, arithmetic, settled

#: A decoder that reads the beams of a batch of sentences token by token.
Steps: TypeAlias = CachedSteps | UncachedSteps


#: On a CPU, bfloat16 decodes half as fast again as float32 at a d_model of 512, and no faster at 192.
HALF_PAYS_FROM = 512


@dataclass(frozen=True)
class Ready:
    """A model made ready to decode with the weights that it has now."""

    model: Any
    precision: Precision
    fused: FusedTransformer | None
    """There where the model's insides are known, so that what was computed for earlier tokens can be kept."""

    def begin(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B 1 S"], beam: int, steps: int
    ) -> Steps:
        """Read the source of a batch, and begin to decode it."""
        if self.fused is not None:
            return CachedSteps(self.fused, self.fused.encode(source, source_mask), source_mask, beam, steps)
        with arithmetic(self.precision, source.device):
            memory = self.model.encode(source, source_mask)
            return UncachedSteps(self.model, memory, source_mask, self.precision)


def ready(model: Any, precision: Precision = "float32") -> Ready:
    """Make a model ready to decode. It has `encode`, `decode` and `generator`."""
    if not has_reference_insides(model):
        return Ready(model, precision, None)
    weight = model.generator.weight
    pays = weight.device.type != "cpu" or weight.shape[1] >= HALF_PAYS_FROM
    in_half = pays and settled(precision, weight.device) == "bfloat16"
    return Ready(model, precision, FusedTransformer(model, torch.bfloat16 if in_half else weight.dtype))


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
