"""Who may look at whom, and what the decoder reads and predicts: sections 3.1 and 3.2.3 of the paper."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(tokens: Int[Tensor, "B L"], pad_id: int) -> Bool[Tensor, "B 1 L"]:
    """Allow every query to look at the real tokens, and none at padding.

    Only key columns are hidden: the axis of length one stands for all queries, padding among them, whose
    outputs nobody reads.
    """
    return (tokens != pad_id).unsqueeze(1)


def causal_mask(length: int) -> Bool[Tensor, "1 {length} {length}"]:
    """Allow position i to look at positions 0 to i: none sees what it is to predict (section 3.2.3)."""
    return torch.ones(1, length, length, dtype=torch.bool).tril()


def decoder_mask(tokens: Int[Tensor, "B L"], pad_id: int) -> Bool[Tensor, "B L L"]:
    """Allow what the padding mask and the causal mask both allow (section 3.2.3, decoder self-attention)."""
    return padding_mask(tokens, pad_id) & causal_mask(tokens.shape[1]).to(tokens.device)


def shift_target(target: Int[Tensor, "B L"]) -> tuple[Int[Tensor, "B L-1"], Int[Tensor, "B L-1"]]:
    """Cut a target into what the decoder reads (all but the last column) and its labels (all but the first).

    Section 3.1, "output embeddings are offset by one position": at position i the decoder reads token i and
    is to predict token i + 1.
    """
    return target[:, :-1], target[:, 1:]
