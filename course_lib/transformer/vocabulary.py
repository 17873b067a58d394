"""A vocabulary of words: lesson 10, and section 5.1 of "Attention Is All You Need"."""

from collections import Counter
from collections.abc import Iterable, Sequence


def build_vocabulary(
    sentences: Iterable[Sequence[str]], min_count: int, specials: Sequence[str]
) -> dict[str, int]:
    """Number the words that occur at least `min_count` times in the sentences, each a list of words.

    The specials come first, in their order; then the words, the frequent before the rare, and equally
    frequent ones by spelling. Build it from the training split only: what the other splits hold is not to be
    known.
    """
    counts = Counter(word for sentence in sentences for word in sentence)
    frequent = [word for word, count in counts.items() if count >= min_count and word not in specials]
    frequent.sort(key=lambda word: (-counts[word], word))
    return {word: number for number, word in enumerate([*specials, *frequent])}
