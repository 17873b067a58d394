"""The plan of an epoch: its batches and their order (section 5.1 of the paper)."""

import hashlib
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray


def epoch_plan(
    lengths: ArrayLike,
    max_tokens: int,
    batches_per_update: int,
    seed: int,
    epoch: int,
) -> list[list[list[int]]]:
    """Plan an epoch: a list of updates, each a list of batches, each a list of indices of pairs.

    `lengths`, of shape (pairs, 2), holds the lengths of both sides; the longer one is the length of the pair.
    The number of pairs in a batch times the length of the longest one is at most `max_tokens`. Each update
    has `batches_per_update` batches, except the last one, which may have fewer. Pairs of the same length are
    shuffled before they are put into batches, and the batches are shuffled too. The random choices depend
    only on the seed and the epoch, so the plan is the same for any number of processes and for a resumed run.
    Raises ValueError if a pair is longer than `max_tokens`.
    """
    longer = np.asarray(lengths, np.int64).reshape(-1, 2).max(axis=1)
    rng = seeded_generator(f"{seed}, epoch {epoch}")
    order = rng.permutation(len(longer))
    order = order[np.argsort(longer[order], kind="stable")]
    ends = _batch_ends(longer[order], max_tokens)
    batches = [order[first:end].tolist() for first, end in pairwise([0, *ends])]
    shuffled = [batches[number] for number in rng.permutation(len(batches))]
    return [
        shuffled[first : first + batches_per_update] for first in range(0, len(shuffled), batches_per_update)
    ]


def seeded_generator(seed: str) -> np.random.RandomState:
    """Return a generator of random numbers that depend on `seed` alone.

    NumPy guarantees that the numbers of RandomState, unlike those of its newer generators, never change
    between versions.
    """
    return np.random.RandomState(np.frombuffer(hashlib.sha256(seed.encode()).digest(), "<u4"))


def _batch_ends(ascending: NDArray[np.int64], max_tokens: int) -> list[int]:
    """Return the exclusive ends of the batches that `token_batches` (lesson 10) forms from ascending lengths.

    Raises ValueError if a length is greater than `max_tokens`.
    """
    if len(ascending) and ascending[-1] > max_tokens:
        raise ValueError(
            f"max_tokens: expected at least {ascending[-1]}, the longest side of a pair, got {max_tokens}"
        )
    ends = []
    first = 0
    while first < len(ascending):
        # All other sentences are at least as long as the first, which limits how many can fit.
        candidates = ascending[first : first + max_tokens // int(ascending[first])]
        # The size grows with each sentence, so the sentences that fit are a prefix.
        fits = candidates * np.arange(1, len(candidates) + 1) <= max_tokens
        first += int(np.count_nonzero(fits))
        ends.append(first)
    return ends
