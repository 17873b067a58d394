"""Every option of the reference's Transformer has the same effect in its faster implementations."""

import copy
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from course_lib.transformer import Transformer, TransformerConfig, decoder_mask, padding_mask
from course_lib.translation.decoding.cached_decoder import CachedDecoder
from course_lib.translation.decoding.inference_model import InferenceTransformer
from course_lib.translation.model.fast_layers import hidden_with_fused_attention, refresh, use_fast_layers
from course_lib.translation.model.fused import fused_attention

PLAIN = TransformerConfig(layers=2, d_model=16, heads=2, d_ff=32, dropout=0.0)
#: Another value for each option. A new option needs one here, and the places that CONTRIBUTING.md lists.
OTHER: dict[str, Any] = {
    "layers": 3,
    "d_model": 24,
    "heads": 4,
    "d_ff": 48,
    "dropout": 0.3,
    "norm_first": True,
    "attention": fused_attention,
}
WORDS = 50


@pytest.mark.parametrize("option", [field.name for field in fields(TransformerConfig)])
def test_an_option_has_the_same_effect_in_training_and_decoding(option: str) -> None:
    assert option in OTHER, f"add another value of {option} to OTHER"
    assert OTHER[option] != getattr(PLAIN, option)
    torch.manual_seed(0)
    model = Transformer(WORDS, WORDS, replace(PLAIN, **{option: OTHER[option]})).double()
    for parameter in model.parameters():  # so that scales aren't one and shifts aren't zero
        nn.init.normal_(parameter, std=0.3)
    source, target = torch.randint(1, WORDS, (5, 9)), torch.randint(1, WORDS, (5, 7))
    source[2, 5:] = 0
    masks = padding_mask(source, 0), decoder_mask(target, 0)

    def logits(model: Transformer) -> Tensor:
        torch.manual_seed(1)  # for the same dropout
        found: Tensor = model(source, masks[0], target, masks[1])
        return found

    fast = copy.deepcopy(model)
    weights, memory_weights = use_fast_layers(fast, torch.float64)
    refresh(weights)
    torch.testing.assert_close(logits(fast), logits(model))
    if memory_weights is not None:
        hidden = hidden_with_fused_attention(fast, source, masks[0], target, torch.float64, memory_weights)
        torch.testing.assert_close(fast.generator(hidden), logits(model))

    model.eval()
    with torch.no_grad():
        inference = InferenceTransformer(model, torch.float64)
        memory = inference.encode(source, masks[0])
        torch.testing.assert_close(memory, model.encode(source, masks[0]))
        decoder = CachedDecoder(inference, memory, masks[0], beam=1)
        steps = [decoder.step(token) for token in target.split(1, dim=1)]
        torch.testing.assert_close(torch.cat(steps, dim=1), logits(model))
