"""A vocabulary of whole words, as in lesson 10, split by spaCy's tokenizers.

spaCy is imported only when it is needed, so it needn't be installed to train on subwords.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from course_lib.errors import BadInputError
from course_lib.transformer.vocabulary import build_vocabulary
from course_lib.translation.data.subwords import SPECIALS


class Words:
    """A vocabulary of the frequent words of one language. All other words are encoded as unknown.

    `language` is spaCy's code for the language, such as "de".

    Decoding omits the space before (or after) a word if the training split usually has none there, as for
    commas, brackets and "n't". `joined` contains the words without a space before them, and the words without
    a space after them. Opening and closing quotation marks are the same word, so the spaces around them are
    often wrong.
    """

    pad_id, start_id, end_id, unknown_id = range(4)

    def __init__(self, language: str, words: Sequence[str], joined: Sequence[Sequence[str]]) -> None:
        self._language = language
        self._words = list(words)
        self._joined_before, self._joined_after = map(frozenset, joined)
        # Text that looks like a special token is encoded as unknown.
        ordinary = list(enumerate(self._words))[len(SPECIALS) :]
        self._number = {word: number for number, word in ordinary}

    @classmethod
    def learn(cls, sentences: Iterable[str], language: str, min_count: int) -> "Words":
        """Learn the words that occur at least `min_count` times in the sentences of the training split."""
        split = [_words(sentence, language) for sentence in sentences]
        known = build_vocabulary(([word for word, _ in words] for words in split), min_count, SPECIALS)
        return cls(language, list(known), [sorted(words & known.keys()) for words in _usually_joined(split)])

    @classmethod
    def from_json(cls, text: str) -> "Words":
        """Load a vocabulary serialised by `to_json`."""
        content = json.loads(text)
        return cls(content["language"], content["words"], content["joined"])

    def to_json(self) -> str:
        """Return the vocabulary as JSON."""
        joined = [sorted(self._joined_before), sorted(self._joined_after)]
        content = {"language": self._language, "words": self._words, "joined": joined}
        return json.dumps(content, ensure_ascii=False)

    def __len__(self) -> int:
        return len(self._words)

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Convert each sentence to ids, without start and end tokens."""
        return [
            [self._number.get(word, self.unknown_id) for word, _ in _words(sentence, self._language)]
            for sentence in sentences
        ]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Convert each list of ids to text, without start, end and padding tokens."""
        special = {self.pad_id, self.start_id, self.end_id}
        return [self._join([self._words[number] for number in row if number not in special]) for row in ids]

    def _join(self, words: list[str]) -> str:
        text = "".join(words[:1])
        for left, right in pairwise(words):
            joined = left in self._joined_after or right in self._joined_before
            text += right if joined else f" {right}"
        return text


def _usually_joined(split: Sequence[Sequence[tuple[str, bool]]]) -> tuple[set[str], set[str]]:
    """Return the words that usually lack a space before them, and those that usually lack one after them."""
    before: Counter[str] = Counter()
    predecessors: defaultdict[str, set[str]] = defaultdict(set)
    for words in split:
        for (left, space), (right, _) in pairwise(words):
            before[right] += -1 if space else 1
            if not space:
                predecessors[right].add(left)
    # If a word is joined only to one particular preceding word, that word may be the reason, like the bracket
    # in "(not".
    joined_before = {word for word, balance in before.items() if balance > 0 and len(predecessors[word]) > 1}
    after: Counter[str] = Counter()
    for words in split:
        for (left, space), (right, _) in pairwise(words):
            # A space that is missing before a comma is due to the comma, not to the word before it.
            if right not in joined_before:
                after[left] += -1 if space else 1
    return joined_before, {word for word, balance in after.items() if balance > 0}


def _words(sentence: str, language: str) -> list[tuple[str, bool]]:
    """Split a sentence into words. Return each word, and whether a space follows it."""
    tokens = _tokenizer(language)(sentence)
    return [(token.text, bool(token.whitespace_)) for token in tokens if not token.is_space]


@cache
def _tokenizer(language: str) -> Any:
    try:
        import spacy
    except ModuleNotFoundError:
        raise BadInputError(
            "data.tokenizer: 'words' needs spaCy, which is not installed; install it (pip install spacy), or "
            "choose 'joint-bpe'"
        ) from None
    return spacy.blank(language).tokenizer
