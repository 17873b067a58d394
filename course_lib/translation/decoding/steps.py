"""What a search needs of a decoder, and which decoder suits which model."""

from typing import Any, Protocol, TypeGuard

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib import transformer as reference
from course_lib.translation.decoding.cached_steps import CachedSteps
from course_lib.translation.decoding.uncached_steps import UncachedSteps
from course_lib.translation.fused_attention import fused_attention
from course_lib.translation.model import Precision


class Steps(Protocol):
    """A decoder that reads the beams of a batch of sentences token by token."""

    def step(self, tokens: Int[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Read one more token of every beam, and give the logits for the one that follows it."""

    def follow(self, parent: Int[Tensor, "B K"]) -> None:
        """Let beam k of each sentence go on from its beam `parent[k]`."""

    def keep(self, sentences: Int[Tensor, "B2"]) -> None:
        """Drop all sentences but these."""


def steps_of(
    model: Any,
    memory: Float[Tensor, "B S D"],
    source_mask: Bool[Tensor, "B 1 S"],
    beam: int,
    steps: int,
    precision: Precision,
) -> Steps:
    """Begin to decode: with a cache where the model's insides are known, else without."""
    if has_reference_insides(model):
        if precision == "bfloat16":
            memory = memory.bfloat16()
        return CachedSteps(model, memory, source_mask, beam, steps)
    return UncachedSteps(model, memory, source_mask, precision)


_INSIDES = {
    *(reference.Transformer, reference.EncoderLayer, reference.DecoderLayer, reference.SublayerConnection),
    *(reference.MultiHeadAttention, reference.FeedForward, reference.LayerNorm),
    *(reference.TokenEmbedding, reference.PositionalEncoding),
    *(nn.Linear, nn.Embedding, nn.Dropout, nn.ModuleList),
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
