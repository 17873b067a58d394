"""BPE dropout: different subwords for the same words in each epoch (Provilkov et al. 2020, arXiv 1910.13267).

`tokenizers` implements it too, but its random generator can't be seeded, so a resumed run would get different
subwords. Here, the training split is stored as words, and each epoch splits them with a generator seeded by
(seed, epoch).
"""

import random
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from course_lib.translation.data.epoch_plan import seeded_generator
from course_lib.translation.data.subwords import Subwords
from course_lib.translation.data.token_pairs import TokenPairs

#: The maximum number of splits drawn for a word per epoch. Each occurrence of the word uses a random one.
MAX_SPLITS = 16

#: A word, and the side whose vocabulary splits it: source (0) or target (1).
SidedWord = tuple[int, str]


def split_with_dropout(
    word: str, ranks: Mapping[tuple[str, str], int], rate: float, rng: random.Random
) -> list[str]:
    """Split a word by byte-pair encoding, but skip each possible merge with probability `rate`.

    `ranks` holds the rank of each merge of two symbols. This is algorithm 1 of Provilkov et al. 2020: at each
    step, drop each possible merge with probability `rate`, then apply the remaining merge with the lowest
    rank; stop if none remains. A rate of 0 is ordinary byte-pair encoding.
    """
    symbols = list(word)
    while len(symbols) > 1:
        first: tuple[int, int] | None = None
        for position, pair in enumerate(pairwise(symbols)):
            rank = ranks.get(pair)
            # Draw only for merges with the lowest rank so far, because the others cannot be selected.
            if rank is not None and (first is None or rank < first[0]) and rng.random() >= rate:
                first = rank, position
        if first is None:
            break
        position = first[1]
        symbols[position : position + 2] = ["".join(symbols[position : position + 2])]
    return symbols


class BpeDropoutPairs(TokenPairs):
    """Sentence pairs whose words are split differently in each epoch.

    Indexing returns the pairs as they are split without dropout.
    """

    def __init__(
        self,
        plain: TokenPairs,
        word_pairs: TokenPairs,
        words: Sequence[SidedWord],
        sides: tuple[Subwords, Subwords],
        rate: float,
        longest: int,
    ) -> None:
        """Store the same pairs in two forms: as subwords and as words.

        `plain` holds the ids of subwords, split without dropout. `word_pairs` holds indices into `words`.
        `sides` are the vocabularies of source and target, and `rate` is the probability of skipping a merge.
        `longest` is the maximum number of tokens in a sentence.
        """
        super().__init__(plain._ids, plain._offsets)
        self._word_ids, self._word_offsets = word_pairs._ids, word_pairs._offsets
        self._words = words
        self._sides = sides
        self._rate = rate
        self._longest = longest
        self._counts = np.minimum(np.bincount(self._word_ids, minlength=len(words)), MAX_SPLITS)

    def of_epoch(self, seed: int, epoch: int) -> TokenPairs:
        """Return the pairs with random splits of all words, which depend on the seed and the epoch alone.

        A sentence whose random split is too long is split without dropout, because truncation would lose its
        last words.
        """
        splits = self._splits(seed, epoch)
        lengths = np.fromiter(map(len, splits), np.int64, len(splits))
        first_of_split = np.cumsum(lengths) - lengths
        first_of_word = np.cumsum(self._counts) - self._counts
        chance = seeded_generator(f"bpe dropout {seed}, epoch {epoch}").random_sample(len(self._word_ids))
        chosen = first_of_word[self._word_ids] + (chance * self._counts[self._word_ids]).astype(np.int64)

        flat = np.fromiter(chain.from_iterable(splits), np.uint32)
        ids, ends = _gathered(flat, first_of_split[chosen], lengths[chosen])
        offsets = ends[self._word_offsets]
        too_long = np.diff(offsets) > self._longest
        if too_long.any():
            starts = np.where(too_long, len(ids) + self._offsets[:-1], offsets[:-1])
            sizes = np.where(too_long, np.diff(self._offsets), np.diff(offsets))
            ids, offsets = _gathered(np.concatenate([ids, self._ids]), starts, sizes)
        return TokenPairs(ids, offsets)

    def _splits(self, seed: int, epoch: int) -> list[list[int]]:
        ranks = tuple(side.merge_ranks() for side in self._sides)
        ids = tuple(side.ids() for side in self._sides)
        splits: list[list[int]] = []
        for (side, word), count in zip(self._words, self._counts.tolist(), strict=True):
            if word in Subwords.UNSPLIT:
                splits += [[ids[side][word]]] * count
                continue
            rng = random.Random(f"{seed} {epoch} {side} {word}")
            for _ in range(count):
                parts = split_with_dropout(word, ranks[side], self._rate, rng)
                splits.append([ids[side][part] for part in parts])
        return splits


def _gathered(
    values: NDArray[np.unsignedinteger], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int64]]:
    """Concatenate slices of `values`. Return the result and its offsets: each slice's start, then the end."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return values[np.repeat(starts, lengths) + within], offsets
