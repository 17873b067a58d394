"""The attention weights of every layer and head for a sentence and its translation."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.transformer import causal_mask, evaluating, scaled_dot_product_attention
from course_lib.translation.model.seq2seq import TransformerModel


@dataclass(frozen=True)
class AttentionMaps:
    """All attention weights of a sentence and its translation, after the softmax. Each row sums to one.

    Axes: N layers, H heads, S source tokens, T target tokens. Row i belongs to query i.
    """

    source_tokens: list[str]
    """The S tokens that the encoder reads, including the start and end tokens."""
    target_tokens: list[str]
    """The T tokens that the decoder reads, including the start token."""
    predicted_tokens: list[str]
    """The next tokens: in row i, the decoder has read target token i and predicts token i of this list."""
    encoder_self: Float[Tensor, "N H S S"]
    decoder_self: Float[Tensor, "N H T T"]
    cross: Float[Tensor, "N H T S"]


def record_attention(
    model: TransformerModel, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"]
) -> tuple[Float[Tensor, "N H S S"], Float[Tensor, "N H T T"], Float[Tensor, "N H T S"]]:
    """Return the attention weights of the encoder, and of the decoder's self-attention and cross-attention.

    `source` and `target` hold the ids of one sentence and its translation, as the encoder and the decoder
    read them. The weights are on the CPU, for all N layers. Every attention module must store its attention
    function in the attribute `attention`, as `MultiHeadAttention` does. Raises AttributeError otherwise.
    """
    stacks = [
        [layer.self_attention for layer in model.encoder_layers],
        [layer.self_attention for layer in model.decoder_layers],
        [layer.cross_attention for layer in model.decoder_layers],
    ]
    assert isinstance(model, nn.Module), "a Transformer is a module"
    with evaluating(model), _recording([module for stack in stacks for module in stack]) as weights:
        mask = torch.ones(1, 1, source.shape[1], dtype=torch.bool, device=source.device)
        memory = model.encode(source, mask)
        model.decode(memory, mask, target, causal_mask(target.shape[1]).to(target.device))
    encoder_self, decoder_self, cross = (
        torch.cat([weights[module] for module in stack]).float().cpu() for stack in stacks
    )
    return encoder_self, decoder_self, cross


@contextmanager
def _recording(modules: list[Any]) -> Iterator[dict[Any, Tensor]]:
    """Within the block, record the attention weights of the given modules in a dict keyed by module."""
    functions = [module.attention for module in modules]
    weights: dict[Any, Tensor] = {}
    try:
        for module in modules:
            module.attention = partial(_record, weights, module, module.attention)
        yield weights
    finally:
        for module, function in zip(modules, functions, strict=True):
            module.attention = function


def _record(
    weights: dict[Any, Tensor], module: Any, attention: Callable[..., Any], *arguments: Any
) -> tuple[Tensor, Tensor]:
    output, found = attention(*arguments)
    if found is None:
        # A fused kernel doesn't return the weights, so compute them with lesson 01's function.
        query, key, value, mask, *_ = arguments
        output, found = scaled_dot_product_attention(query, key, value, mask)
    weights[module] = found
    return output, found
