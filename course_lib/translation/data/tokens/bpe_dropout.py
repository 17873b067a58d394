"""Other subwords for the same words in each epoch: BPE dropout (Provilkov et al. 2020, arXiv 1910.13267).

`tokenizers` has it too, but draws from a generator that can't be seeded, and a run could not go on exactly
where it was. So the words are kept as they are, and every epoch is split anew, as (seed, epoch) say.
"""

import hashlib
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from course_lib.translation.data.tokens.subwords import Subwords
from course_lib.translation.data.tokens.token_pairs import TokenPairs

#: So many ways to split a word are drawn in an epoch at most. Each of its places takes one of them by chance.
WAYS = 16

#: A word as the vocabulary of the source (0) or the target (1) is to split it.
SidedWord = tuple[int, str]


def split_with_dropout(
    word: str, ranks: Mapping[tuple[str, str], int], rate: float, rng: random.Random
) -> list[str]:
    """Merge a word's letters as byte-pair encoding does, but pass over each possible merge at that rate.

    Algorithm 1 of the paper: at every step, each pair that could be merged is left out with probability
    `rate`; of the others, the one learnt first is merged; where none is left, that's it. With rate 0 it is
    byte-pair encoding.
    """
    symbols = list(word)
    while len(symbols) > 1:
        first: tuple[int, int] | None = None
        for place, pair in enumerate(pairwise(symbols)):
            rank = ranks.get(pair)
            # Only one that would come first need be drawn for.
            if rank is not None and (first is None or rank < first[0]) and rng.random() >= rate:
                first = rank, place
        if first is None:
            break
        place = first[1]
        symbols[place : place + 2] = ["".join(symbols[place : place + 2])]
    return symbols


class ResampledPairs(TokenPairs):
    """Pairs whose words are split anew for every epoch. As a sequence, they are split without dropout."""

    def __init__(
        self,
        plain: TokenPairs,
        numbers: TokenPairs,
        words: Sequence[SidedWord],
        sides: tuple[Subwords, Subwords],
        rate: float,
    ) -> None:
        """Take the pairs, and again as `numbers` of `words`, with the subwords of source and target."""
        super().__init__(*plain.arrays)
        self._numbers, self._number_offsets = numbers.arrays
        self._words = words
        self._sides = sides
        self._rate = rate
        self._ways = np.minimum(np.bincount(self._numbers, minlength=len(words)), WAYS)
        self._latest: tuple[tuple[int, int], TokenPairs] | None = None

    def of_epoch(self, seed: int, epoch: int) -> TokenPairs:
        """Split all words as the seed and the epoch say, on every process alike."""
        if self._latest is None or self._latest[0] != (seed, epoch):
            self._latest = (seed, epoch), self._resampled(seed, epoch)
        return self._latest[1]

    def _resampled(self, seed: int, epoch: int) -> TokenPairs:
        splits = self._splits(seed, epoch)
        lengths = np.fromiter(map(len, splits), np.int64, len(splits))
        first_of_split = np.cumsum(lengths) - lengths
        first_of_word = np.cumsum(self._ways) - self._ways
        # numpy promises that RandomState draws the same for ever.
        digest = hashlib.sha256(f"bpe dropout {seed}, epoch {epoch}".encode()).digest()
        chance = np.random.RandomState(np.frombuffer(digest, "<u4")).random_sample(len(self._numbers))
        chosen = first_of_word[self._numbers] + (chance * self._ways[self._numbers]).astype(np.int64)

        ends = np.concatenate([[0], np.cumsum(lengths[chosen])])
        within = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths[chosen])
        ids = _flat(splits)[np.repeat(first_of_split[chosen], lengths[chosen]) + within]
        return TokenPairs(ids, ends[self._number_offsets])

    def _splits(self, seed: int, epoch: int) -> list[list[int]]:
        """Draw the ways to split each word, one word after the other."""
        ranks = tuple(side.merge_ranks() for side in self._sides)
        numbers = tuple(side.numbers() for side in self._sides)
        splits: list[list[int]] = []
        for (side, word), ways in zip(self._words, self._ways.tolist(), strict=True):
            if word in Subwords.UNSPLIT:
                splits += [[numbers[side][word]]] * ways
                continue
            rng = random.Random(f"{seed} {epoch} {side} {word}")
            for _ in range(ways):
                parts = split_with_dropout(word, ranks[side], self._rate, rng)
                splits.append([numbers[side][part] for part in parts])
        return splits


def _flat(splits: Sequence[Sequence[int]]) -> NDArray[np.uint32]:
    return np.fromiter((number for split in splits for number in split), np.uint32)
