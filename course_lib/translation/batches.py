"""Batches with little padding, and the order in which an epoch takes them: lesson 10, section 5.1."""

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

#: The ids of a source sentence and of its translation, without start and end.
IdPair = tuple[Sequence[int], Sequence[int]]


def token_batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Put sentences of like length together: lists of indices, each index once.

    Section 5.1, "batched together by approximate sequence length". A batch, padded to its longest sentence,
    has at most `max_tokens` places: longest times number of sentences. Short before long; equal lengths keep
    their order. Raises ValueError for a sentence that is longer than `max_tokens` all by itself.
    """
    batches: list[list[int]] = []
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if lengths[index] > max_tokens:
            raise ValueError(
                f"sentence {index} has {lengths[index]} tokens, and a batch may have {max_tokens}: "
                "shorten it, leave it out or allow more"
            )
        # The newest sentence is the longest so far.
        if batch and lengths[index] * (len(batch) + 1) > max_tokens:
            batches.append(batch)
            batch = []
        batch.append(index)
    if batch:
        batches.append(batch)
    return batches


def collate(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    pad_id: int,
    start_id: int,
    end_id: int,
    max_length: int,
) -> tuple[Int[Tensor, "B S"], Int[Tensor, "B T"]]:
    """Make one batch of sentence pairs, given as ids: a matrix for the sources and one for the targets.

    Every sentence stands between `start_id` and `end_id`. It is cut before it gets its end, so that with both
    it has at most `max_length` tokens. Each side is padded at the right to its own longest sentence. Raises
    ValueError where `max_length` leaves no room for start and end.
    """
    if max_length < 2:
        raise ValueError(f"max_length must be at least 2, for start and end, and is {max_length}")

    def side(sentences: list[Sequence[int]]) -> Tensor:
        rows = [torch.tensor([start_id, *ids[: max_length - 2], end_id]) for ids in sentences]
        return pad_sequence(rows, batch_first=True, padding_value=pad_id)

    return side([source for source, _ in pairs]), side([target for _, target in pairs])


def epoch_plan(
    lengths: ArrayLike, max_tokens: int, batches_per_update: int, seed: int, epoch: int
) -> list[list[list[int]]]:
    """Plan an epoch: a list of updates, each a list of batches, each a list of indices.

    `lengths` holds both sides of each pair, one pair a row; the longer side counts against `max_tokens`. The
    plan depends on the seed and the epoch alone, so any number of processes, and a run that starts again,
    follow the same one. Pairs of one length are shuffled before they meet in batches, and the batches are
    shuffled too. The last update may have fewer batches. Raises ValueError for a pair that is longer than
    `max_tokens`.
    """
    longer = np.asarray(lengths, np.int64).reshape(-1, 2).max(axis=1)
    # numpy promises that RandomState draws the same for ever; of its newer generators it does not.
    digest = hashlib.sha256(f"{seed}, epoch {epoch}".encode()).digest()
    rng = np.random.RandomState(np.frombuffer(digest, "<u4"))
    order = rng.permutation(len(longer))
    order = order[np.argsort(longer[order], kind="stable")]
    ends = _batch_ends(longer[order], max_tokens)
    batches = [order[first:end].tolist() for first, end in pairwise([0, *ends])]
    shuffled = [batches[number] for number in rng.permutation(len(batches))]
    return [
        shuffled[first : first + batches_per_update] for first in range(0, len(shuffled), batches_per_update)
    ]


def _batch_ends(ascending: NDArray[np.int64], max_tokens: int) -> list[int]:
    """Say where the batches end that `token_batches` makes of ascending lengths, millions a second."""
    if len(ascending) and ascending[-1] > max_tokens:
        raise ValueError(f"a pair has {ascending[-1]} tokens on a side, and a batch may have {max_tokens}")
    ends = []
    first = 0
    while first < len(ascending):
        # The first sentence is the shortest: there is room for no more than so many.
        some = ascending[first : first + max_tokens // int(ascending[first])]
        # The more sentences, the more places: those that fit come before those that don't.
        first += int(np.count_nonzero(some * np.arange(1, len(some) + 1) <= max_tokens))
        ends.append(first)
    return ends
