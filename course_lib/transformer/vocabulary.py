"""A vocabulary of words: section 5.1 of "Attention Is All You Need"."""

from collections import Counter
from collections.abc import Iterable, Sequence


def build_vocabulary(
    sentences: Iterable[Sequence[str]], min_count: int, specials: Sequence[str]
) -> dict[str, int]:
    """Return the ids of the special tokens and of all words that occur at least `min_count` times.

    A sentence is a list of words. The specials come first, in the given order; the words follow by descending
    count, and words with equal counts in the order of `sorted`. Build the vocabulary from the training split
    only: the other splits must stay unseen.
    """
    counts = Counter(word for sentence in sentences for word in sentence)
    frequent = [word for word, count in counts.items() if count >= min_count and word not in specials]
    frequent.sort(key=lambda word: (-counts[word], word))
    return {word: number for number, word in enumerate([*specials, *frequent])}
