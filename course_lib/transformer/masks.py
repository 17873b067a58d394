"""Attention masks, and the decoder's input and labels: sections 3.1 and 3.2.3 of the paper."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(tokens: Int[Tensor, "B L"], pad_id: int) -> Bool[Tensor, "B 1 L"]:
    """Return a mask that lets every query attend to the real tokens, and none to padding.

    Only key columns are hidden. The axis of length one covers all queries, including padding, whose outputs
    are never used. The mask is on the device of the tokens.
    """
    return (tokens != pad_id).unsqueeze(1)


def causal_mask(length: int) -> Bool[Tensor, "1 {length} {length}"]:
    """Return a mask that lets position i attend to positions 0 to i, and not to later ones (section 3.2.3).

    The mask is on the default device. The caller moves it to another one if needed.
    """
    return torch.ones(1, length, length, dtype=torch.bool).tril()


def decoder_mask(tokens: Int[Tensor, "B L"], pad_id: int) -> Bool[Tensor, "B L L"]:
    """Return a mask that allows a key only if the padding mask and the causal mask do (section 3.2.3).

    The mask is on the device of the tokens.
    """
    return padding_mask(tokens, pad_id) & causal_mask(tokens.shape[1]).to(tokens.device)


def shift_target(target: Int[Tensor, "B L"]) -> tuple[Int[Tensor, "B L-1"], Int[Tensor, "B L-1"]]:
    """Return the decoder's input (all but the last column of the target) and its labels (all but the first).

    Section 3.1, "output embeddings are offset by one position": at position i the decoder reads token i and
    predicts token i + 1.
    """
    return target[:, :-1], target[:, 1:]
