"""Learning the merges of byte-pair encoding: section 5.1 of "Attention Is All You Need"."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise


def learn_merges(words: Mapping[str, int], count: int) -> list[tuple[str, str]]:
    """Learn up to `count` merges. Return the pairs of adjacent symbols to merge, in order.

    This is the algorithm of Sennrich et al. 2016 (arXiv 1508.07909), section 3.2.
    `words` maps each word to its count. A word starts as a sequence of characters, without an end mark. In
    each round the most frequent pair becomes one symbol everywhere; if several pairs are equally frequent,
    the lexicographically smallest is merged. Occurrences are merged from left to right without overlap:
    merging (a, a) turns a a a into aa a. The result is shorter than `count` if no word has two symbols left.
    """
    symbols = {word: list(word) for word in words}
    pair_counts: Counter[tuple[str, str]] = Counter()
    # Remember for each pair the words that contain it or once did: only these can change if it is merged.
    words_with: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for word, letters in symbols.items():
        for pair in pairwise(letters):
            pair_counts[pair] += words[word]
            words_with[pair].add(word)

    merges: list[tuple[str, str]] = []
    while len(merges) < count and max(pair_counts.values(), default=0) > 0:
        best = min(pair_counts, key=lambda pair: (-pair_counts[pair], pair))
        merges.append(best)
        for word in words_with.pop(best):
            old, new = symbols[word], []
            position = 0
            while position < len(old):
                width = 2 if tuple(old[position : position + 2]) == best else 1
                new.append("".join(old[position : position + width]))
                position += width
            symbols[word] = new
            for pair in pairwise(old):
                pair_counts[pair] -= words[word]
            for pair in pairwise(new):
                pair_counts[pair] += words[word]
                words_with[pair].add(word)
    return merges
