"""Who looks at whom: the attention weights of every layer and head while a sentence is translated."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.transformer import causal_mask, evaluating, scaled_dot_product_attention


def attention_maps(
    model: Any, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"]
) -> tuple[Float[Tensor, "N H S S"], Float[Tensor, "N H T T"], Float[Tensor, "N H T S"]]:
    """Read one sentence and what is written of its translation, and note the weights.

    Gives those of the encoder's self-attention, the decoder's self-attention and its attention over the
    source, N layers each, on the CPU. The model's attention has to be a function that its modules hold as
    `attention`, as the contract of `MultiHeadAttention` has it: raises AttributeError where it isn't.
    """
    stacks = [
        [layer.self_attention for layer in model.encoder_layers],
        [layer.self_attention for layer in model.decoder_layers],
        [layer.cross_attention for layer in model.decoder_layers],
    ]
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
    """Note the weights of these modules' attention inside a `with`."""
    before = [module.attention for module in modules]
    weights: dict[Any, Tensor] = {}
    try:
        for module in modules:
            module.attention = partial(_noted, weights, module, module.attention)
        yield weights
    finally:
        for module, attention in zip(modules, before, strict=True):
            module.attention = attention


def _noted(
    weights: dict[Any, Tensor], module: Any, attention: Callable[..., Any], *arguments: Any
) -> tuple[Tensor, Tensor]:
    output, found = attention(*arguments)
    if found is None:
        # A fused kernel never forms the weights; the matrix products of lesson 01 do.
        query, key, value, mask, *_ = arguments
        output, found = scaled_dot_product_attention(query, key, value, mask)
    weights[module] = found
    return output, found
