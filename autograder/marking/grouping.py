"""Group identical and nearly identical answers, so that graders mark them consistently."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import groupby
from typing import Literal

from rapidfuzz import fuzz, process

from autograder.marking.answers import Answer

#: The minimum similarity of an answer to the first one of its group, in percent of their characters.
ALIKE = 85

#: The maximum number of characters that are compared. Without a limit, a huge answer would take minutes.
_COMPARED = 4_000

_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Card:
    """Identical answers with equal marks, which are marked together."""

    answers: tuple[Answer, ...]

    @property
    def first(self) -> Answer:
        """The first of the identical answers, which represents all of them."""
        return self.answers[0]


@dataclass(frozen=True)
class Group:
    """Answers that are nearly identical to the first one."""

    cards: tuple[Card, ...]

    @property
    def size(self) -> int:
        """The number of answers in the group."""
        return sum(len(card.answers) for card in self.cards)


def grouped(answers: Iterable[Answer]) -> list[Group]:
    """Group identical and nearly identical answers, and return the groups, the largest first.

    Groups of cells that were left unanswered come last. The order depends on the answers and not on the
    points, so it stays the same while people mark.
    """
    by_content = sorted(answers, key=lambda answer: (answer.written.digest, answer.id))
    identical = [tuple(same) for _, same in groupby(by_content, key=lambda answer: answer.written.digest)]
    # Sort by frequency, so that every group is built around its most frequent answer.
    identical.sort(key=lambda same: (-len(same), min(answer.id for answer in same)))
    groups = [
        Group(tuple(_cards(identical[member] for member in members)))
        for members in _alike(tuple(_content(same[0]) for same in identical))
    ]

    def is_unanswered(group: Group) -> bool:
        mark = group.cards[0].first.mark
        return mark.automatic is not None and not mark.waiting

    return sorted(groups, key=lambda group: (is_unanswered(group), -group.size))


@lru_cache(maxsize=8)
def _alike(contents: tuple[tuple[str, str], ...]) -> list[list[int]]:
    """Group nearly equal texts with equal pictures, and return the indices of each group's members.

    The result is cached, because grouping a thousand different answers takes seconds, and a grader loads a
    page every minute.
    """
    ungrouped = dict(enumerate(text for text, _ in contents))
    groups = []
    while ungrouped:
        index = next(iter(ungrouped))
        text = ungrouped.pop(index)
        # Don't group answers without words: their texts are all empty, which doesn't make them similar.
        alike = process.extract_iter(text, ungrouped, scorer=fuzz.ratio, score_cutoff=ALIKE) if text else ()
        members = [other for _, _, other in alike if contents[other][1] == contents[index][1]]
        for other in members:
            del ungrouped[other]
        groups.append([index, *members])
    return groups


def _content(answer: Answer) -> tuple[str, str]:
    """Return the words of an answer that are compared, as one text, and a hash of its pictures."""
    words = _WORD.findall(answer.written.source[:_COMPARED].casefold())
    pictures = json.dumps(answer.written.attachments or {}, sort_keys=True)
    return " ".join(words), hashlib.sha256(pictures.encode("utf-8", "surrogatepass")).hexdigest()


def _cards(members: Iterable[tuple[Answer, ...]]) -> Iterator[Card]:
    for same in members:
        by_mark: dict[str, list[Answer]] = {}
        for answer in same:
            by_mark.setdefault(answer.version, []).append(answer)
        yield from (Card(tuple(equal)) for equal in by_mark.values())


@dataclass(frozen=True)
class Piece:
    """Consecutive words or lines in a comparison of two texts, and which of the texts contain them.

    A "gap" stands for words or lines that are left out.
    """

    of: Literal["both", "first", "second", "gap"]
    parts: Sequence[str]


def differences(first: Sequence[str], second: Sequence[str], context: int) -> Iterator[Piece]:
    """Compare two texts, given as words or lines, and yield their differences in order.

    Each difference is surrounded by up to `context` common words or lines on each side.
    """
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(context)):
        if number or group[0][1] > 0:
            yield Piece("gap", ["…"])
        for tag, low, high, start, end in group:
            if tag == "equal":
                yield Piece("both", first[low:high])
                continue
            if high > low:
                yield Piece("first", first[low:high])
            if end > start:
                yield Piece("second", second[start:end])


def differing_words(first: Answer, second: Answer) -> Iterator[Piece]:
    """Yield the differences between the first few thousand characters of two answers, word by word."""
    words, others = (answer.written.source[:_COMPARED].split() for answer in (first, second))
    return differences(words, others, context=4)
