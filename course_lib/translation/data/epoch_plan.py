"""The order in which an epoch takes its batches: section 5.1 of "Attention Is All You Need"."""

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: The ids of a source sentence and of its translation, without start and end.
IdPair = tuple[Sequence[int], Sequence[int]]


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
