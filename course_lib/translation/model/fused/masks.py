"""Lesson 04's mask of the decoder, made where the tokens are."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def decoder_mask_on_device(tokens: Int[Tensor, "B L"], pad_id: int) -> Bool[Tensor, "B L L"]:
    """Give `decoder_mask` without the copy from the CPU for which a GPU would first finish its work."""
    length = tokens.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=tokens.device).tril()
    return (tokens != pad_id).unsqueeze(1) & causal
