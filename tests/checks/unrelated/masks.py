"""Wrong answers for lesson 04 that match no known misconception: the checks must not name one."""

from course_lib.transformer import causal_mask, decoder_mask, padding_mask, shift_target


def _loud(*arguments):
    raise RuntimeError("no")


UNRELATED = {
    "padding_mask": (
        lambda tokens, pad_id: None,
        lambda tokens, pad_id: tokens,
        lambda tokens, pad_id: padding_mask(tokens, pad_id).tolist(),
        lambda tokens, pad_id: padding_mask(tokens, pad_id).flip(-1),
        lambda tokens: tokens,
        _loud,
        True,
    ),
    "causal_mask": (
        lambda length: None,
        lambda length: length,
        lambda length: causal_mask(length).tolist(),
        lambda length: causal_mask(8)[:, :length, :length],
        lambda length: causal_mask(length).flatten(),
        lambda length, width: causal_mask(length),
        _loud,
        None,
    ),
    "decoder_mask": (
        lambda tokens, pad_id: None,
        lambda tokens, pad_id: decoder_mask(tokens, pad_id).flip(1),
        lambda tokens, pad_id: decoder_mask(tokens, pad_id).roll(1, dims=-1),
        lambda tokens, pad_id: decoder_mask(tokens, pad_id).tolist(),
        lambda tokens, pad_id: (decoder_mask(tokens, pad_id), tokens),
        lambda tokens, pad_id: decoder_mask(tokens, pad_id)[..., :1],
        lambda tokens: tokens,
        _loud,
    ),
    "shift_target": (
        lambda target: (None, None),
        lambda target: (*shift_target(target), 0),
        lambda target: (target[:, :-1].flip(1), target[:, 1:].flip(1)),
        lambda target: tuple(part.double() for part in shift_target(target)),
        lambda target: {"labels": target[:, 1:]},
        lambda target: (target[:, :-1] + 1, target[:, 1:]),
        _loud,
    ),
}
