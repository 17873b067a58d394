"""Lesson 04, wrong answers that are none of the known misconceptions: nothing may be named for them."""

import torch

from course_lib.transformer import causal_mask, decoder_mask, padding_mask, shift_target


def _loud(*arguments):
    raise RuntimeError("no")


def _changes_tokens(tokens, pad_id):
    mask = padding_mask(tokens, pad_id)
    tokens[tokens == pad_id] = 1
    return mask


def _sees_further(length):
    return torch.ones(1, length, length, dtype=torch.bool).tril(2)


UNRELATED = {
    "padding_mask": (
        lambda tokens, pad_id: None,
        lambda tokens, pad_id: tokens,
        lambda tokens, pad_id: padding_mask(tokens, pad_id).tolist(),
        lambda tokens, pad_id: padding_mask(tokens, pad_id).flip(-1),
        lambda tokens, pad_id: torch.ones(tokens.shape[0], 1, tokens.shape[1], dtype=torch.bool),
        lambda tokens, pad_id: padding_mask(tokens, pad_id) | True,
        lambda tokens: tokens,
        _changes_tokens,
        _loud,
        True,
    ),
    "causal_mask": (
        lambda length: None,
        lambda length: length,
        lambda length: causal_mask(length).tolist(),
        lambda length: causal_mask(length).flip(-1),
        lambda length: causal_mask(8)[:, :length, :length],
        lambda length: torch.zeros(1, length, length, dtype=torch.bool),
        lambda length: causal_mask(length).flatten(),
        lambda length, width: causal_mask(length),
        _sees_further,
        _loud,
        None,
    ),
    "decoder_mask": (
        lambda tokens, pad_id: None,
        lambda tokens, pad_id: decoder_mask(tokens, pad_id).flip(1),
        lambda tokens, pad_id: decoder_mask(tokens, pad_id)[:1],
        lambda tokens, pad_id: decoder_mask(tokens, pad_id).tolist(),
        lambda tokens, pad_id: (padding_mask(tokens, pad_id), causal_mask(tokens.shape[1])),
        lambda tokens, pad_id: padding_mask(tokens, pad_id) ^ causal_mask(tokens.shape[1]),
        lambda tokens: tokens,
        _loud,
    ),
    "shift_target": (
        lambda target: None,
        lambda target: target,
        lambda target: (target[:, :-1].tolist(), target[:, 1:].tolist()),
        lambda target: (*shift_target(target), 0),
        lambda target: (target[:, :-1].flip(1), target[:, 1:].flip(1)),
        lambda target: tuple(part.double() for part in shift_target(target)),
        lambda target: {"decoder_input": target[:, :-1], "labels": target[:, 1:]},
        lambda target: (target[:, :-1] + 1, target[:, 1:]),
        _loud,
    ),
}
