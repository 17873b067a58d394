"""A vocabulary of whole words, as translators had before subwords: lesson 10's, with spaCy's tokenizers.

spaCy is imported only where words are asked for: a cluster node that trains on subwords does without.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from course_lib.errors import BadInputError
from course_lib.transformer.vocabulary import build_vocabulary
from course_lib.translation.data.tokens.subwords import END, PAD, START, UNKNOWN

SPECIALS = (PAD, START, END, UNKNOWN)


class Words:
    """The frequent words of one language; all others are unknown.

    Ids become text again by habit: a word is written without the space before (or after) it where the
    training split has it so more often than not. So commas and "n't" come out right, and brackets; a
    quotation mark, which opens and closes, often does not. `joined` holds these words: those with no space
    before them, those with none after.
    """

    pad_id, start_id, end_id, unknown_id = range(4)

    def __init__(self, language: str, words: Sequence[str], joined: Sequence[Sequence[str]]) -> None:
        self._language = language
        self._words = list(words)
        self._joined_before, self._joined_after = (frozenset(some) for some in joined)
        # Text that spells a special symbol is a word that nobody knows.
        ordinary = list(enumerate(self._words))[len(SPECIALS) :]
        self._number = {word: number for number, word in ordinary}

    @classmethod
    def learn(cls, sentences: Iterable[str], language: str, min_count: int) -> "Words":
        """Collect the words that occur at least `min_count` times in the training split."""
        split = [_words(sentence, language) for sentence in sentences]
        known = build_vocabulary(([word for word, _ in words] for words in split), min_count, SPECIALS)
        return cls(language, list(known), [sorted(words & known.keys()) for words in _habits(split)])

    @classmethod
    def from_text(cls, text: str) -> "Words":
        """Read what `as_text` wrote."""
        content = json.loads(text)
        return cls(content["language"], content["words"], content["joined"])

    def as_text(self) -> str:
        """Write everything as JSON."""
        joined = [sorted(self._joined_before), sorted(self._joined_after)]
        content = {"language": self._language, "words": self._words, "joined": joined}
        return json.dumps(content, ensure_ascii=False)

    def __len__(self) -> int:
        return len(self._words)

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Give each sentence its ids, without start and end."""
        return [
            [self._number.get(word, self.unknown_id) for word, _ in _words(sentence, self._language)]
            for sentence in sentences
        ]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Give each list of ids its text; start, end and padding leave no trace, unknown words do."""
        silent = {self.pad_id, self.start_id, self.end_id}
        return [self._write([self._words[number] for number in row if number not in silent]) for row in ids]

    def _write(self, words: list[str]) -> str:
        text = "".join(words[:1])
        for left, right in pairwise(words):
            joined = left in self._joined_after or right in self._joined_before
            text += right if joined else f" {right}"
        return text


def _habits(split: Sequence[Sequence[tuple[str, bool]]]) -> tuple[set[str], set[str]]:
    """Find the words that mostly have no space before them, and those that mostly have none after."""
    before: Counter[str] = Counter()
    touched: defaultdict[str, set[str]] = defaultdict(set)
    for words in split:
        for (left, space), (right, _) in pairwise(words):
            before[right] += -1 if space else 1
            if not space:
                touched[right].add(left)
    # With one word alone, it is as likely that word's habit: "(not" is because of the bracket.
    joined_before = {word for word, habit in before.items() if habit > 0 and len(touched[word]) > 1}
    after: Counter[str] = Counter()
    for words in split:
        for (left, space), (right, _) in pairwise(words):
            # Where a comma follows, it is the comma's habit.
            if right not in joined_before:
                after[left] += -1 if space else 1
    return joined_before, {word for word, habit in after.items() if habit > 0}


def _words(sentence: str, language: str) -> list[tuple[str, bool]]:
    """Split a sentence into words, each with whether a space follows it."""
    tokens = _tokenizer(language)(sentence)
    return [(token.text, bool(token.whitespace_)) for token in tokens if not token.is_space]


@cache
def _tokenizer(language: str) -> Any:
    try:
        import spacy
    except ModuleNotFoundError:
        raise BadInputError(
            "data.tokenizer: words needs spaCy, which is not installed; install it (pip install spacy), or "
            "choose joint-bpe"
        ) from None
    return spacy.blank(language).tokenizer
