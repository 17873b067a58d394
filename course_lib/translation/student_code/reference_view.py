"""The reference's Transformer around the very weights of a model made of a student's parts."""

from typing import Any

import torch
from torch import Tensor

from course_lib.transformer import causal_mask, evaluating
from course_lib.translation.configs.schema import ModelConfig
from course_lib.translation.model.trainable import build_transformer

#: A generator may do without a bias, which is one of zeros then.
_MAY_LACK = "generator.bias"
_START, _WORDS = 1, 6


def reference_view(model: Any, config: ModelConfig, source_size: int, target_size: int) -> Any:
    """Give the reference's model with the same weights: not a copy, so it learns as the other does.

    The contract names the weights and says what is computed with them, so what a student's parts have learnt
    can be saved, and decoded with a cache, as if the reference had learnt it. Where the two do not give the
    same logits after all, the model comes back as it is.
    """
    view = build_transformer(config, source_size, target_size)
    own = model.state_dict()
    if _MAY_LACK not in own:
        own[_MAY_LACK] = torch.zeros_like(own["generator.weight"][:, 0])
    names = view.state_dict()
    if not names.keys() <= own.keys():
        return model
    view.load_state_dict({name: own[name] for name in names}, assign=True)
    view.to(own["generator.weight"].device)
    return view if _agree(model, view) else model


def _agree(model: Any, view: Any) -> bool:
    ours, theirs = _logits(model), _logits(view)
    within = 1e-6 if theirs.dtype == torch.float64 else 1e-3
    return torch.allclose(ours, theirs, rtol=within, atol=within * float(theirs.abs().max()))


def _logits(model: Any) -> Tensor:
    """Let a model answer to a few tokens."""
    device = model.generator.weight.device
    tokens = torch.arange(_START, _START + _WORDS, device=device).repeat(2, 1)
    mask = torch.ones(2, 1, _WORDS, dtype=torch.bool, device=device)
    with evaluating(model):
        logits: Tensor = model(tokens, mask, tokens, causal_mask(_WORDS).to(device))
    return logits
