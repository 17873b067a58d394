"""Attention masks, and the decoder's input and labels: sections 3.1 and 3.2.3 of the paper."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(tokens: Int[Tensor, "B L"], pad_id: int) -> Bool[Tensor, "B 1 L"]:
    """Return a mask that lets every query attend to the real tokens, but not to padding.

    Only keys are masked. The axis of length one broadcasts over all queries, including those at padding,
    whose outputs are never used. The mask is on the device of the tokens.
    """
    return (tokens != pad_id).unsqueeze(1)


def causal_mask(length: int) -> Bool[Tensor, "1 {length} {length}"]:
    """Return a mask that lets position i attend to positions 0 to i, and not to later ones (section 3.2.3).

    The mask is on the default device. The caller moves it to another device if needed. The check also accepts
    a mask without the first axis.
    """
    return torch.ones(1, length, length, dtype=torch.bool).tril()


def decoder_mask(tokens: Int[Tensor, "B L"], pad_id: int) -> Bool[Tensor, "B L L"]:
    """Return a mask that allows a key only if both the padding mask and the causal mask allow it.

    The causal mask is that of section 3.2.3. The mask is on the device of the tokens.
    """
    return padding_mask(tokens, pad_id) & causal_mask(tokens.shape[1]).to(tokens.device)


def shift_target(target: Int[Tensor, "B L"]) -> tuple[Int[Tensor, "B L-1"], Int[Tensor, "B L-1"]]:
    """Return the decoder's input (all but the last column of the target) and its labels (all but the first).

    As in section 3.1, "output embeddings are offset by one position": at position i the decoder reads token i
    and predicts token i + 1.
    """
    return target[:, :-1], target[:, 1:]
