"""Wrong answers for lesson 10 that match no known misconception: the checks must not name one."""

import torch

from course_lib.transformer.batching import collate, token_batches
from course_lib.transformer.byte_pairs import learn_merges
from course_lib.transformer.vocabulary import build_vocabulary


def _loud(*arguments):
    raise RuntimeError("no")


def _lazy(lengths, max_tokens):
    yield from token_batches(lengths, max_tokens)


UNRELATED = {
    "build_vocabulary": (
        lambda sentences, min_count, specials: build_vocabulary(sentences, 2, specials),
        lambda sentences, min_count, specials: {
            word: -number for word, number in build_vocabulary(sentences, min_count, specials).items()
        },
        lambda sentences, min_count, specials: {
            word: float(number) for word, number in build_vocabulary(sentences, min_count, specials).items()
        },
        lambda sentences, min_count, specials: build_vocabulary(sentences[:2], min_count, specials),
        lambda sentences: build_vocabulary(sentences, 1, []),
        _loud,
    ),
    "learn_merges": (
        lambda words, count: [],
        lambda words, count: [(left, right.upper()) for left, right in learn_merges(words, count)],
        lambda words, count: dict(learn_merges(words, count)),
        lambda words, count: [pair for pair in learn_merges(words, count) for _ in range(2)],
        lambda words, count: set(learn_merges(words, count)),
        _loud,
    ),
    "token_batches": (
        lambda lengths, max_tokens: [],
        lambda lengths, max_tokens: [list(range(len(lengths)))],
        lambda lengths, max_tokens: token_batches(lengths, max_tokens)[0],
        lambda lengths, max_tokens: [*token_batches(lengths, max_tokens), []],
        lambda lengths, max_tokens: token_batches(lengths, max_tokens) * 2,
        lambda lengths, max_tokens: [[-i for i in b] for b in token_batches(lengths, max_tokens)],
        lambda lengths, max_tokens: token_batches(lengths, 2 * max_tokens),
        _lazy,
        _loud,
    ),
    "collate": (
        lambda pairs, *settings: collate(pairs, *settings)[0],
        lambda pairs, *settings: (*collate(pairs, *settings), len(pairs)),
        lambda pairs, *settings: tuple(side.flip(0) for side in collate(pairs, *settings)),
        lambda pairs, *settings: tuple(side.unsqueeze(0) for side in collate(pairs, *settings)),
        lambda pairs, *settings: tuple(torch.zeros_like(side) for side in collate(pairs, *settings)),
        lambda pairs, *settings: collate(sorted(pairs, key=len), *settings[:3], settings[3] - 3),
        _loud,
    ),
}
