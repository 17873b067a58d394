"""The corpus: sentence pairs drawn from the grammar and divided into splits that test what they should."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from course_lib.translation.data.captions.choices import Chance, Chooser, DeadEnd
from course_lib.translation.data.captions.combinations import Combination, combinations
from course_lib.translation.data.captions.english import EnglishWriter
from course_lib.translation.data.captions.german import GermanWriter
from course_lib.translation.data.captions.grammar import Grammar
from course_lib.translation.data.captions.tree import Clause
from course_lib.translation.data.captions.words import Phenomenon

Split = Literal["train", "validation", "test"]

SHORTEST, LONGEST = 5, 20
_PATIENCE = 2000


@dataclass(frozen=True)
class Pair:
    """A German sentence, its English translation, and what the two of them show.

    `combinations` are the word pairs that meet in the sentence: see `combinations`.
    """

    german: str
    english: str
    phenomena: frozenset[Phenomenon]
    combinations: frozenset[Combination]

    @property
    def reserved(self) -> bool:
        """Whether it holds a combination that only the test split may show."""
        return any(combination.reserved for combination in self.combinations)


def splits(
    seed: int = 0, train: int = 6000, validation: int = 300, test: int = 300
) -> dict[Split, list[Pair]]:
    """The corpus in three splits of the given sizes, the same for the same arguments everywhere.

    No sentence of either language stands twice, neither within a split nor across them. Every word of the
    validation and test splits occurs in train. Every test pair holds a combination of two words that no other
    split shows.

    Raises ValueError when a size is not positive, or when train is too small to show all words of the others.
    """
    for name, size in (("train", train), ("validation", validation), ("test", test)):
        if size < 1:
            raise ValueError(f"{name} must be at least 1 sentence, not {size}")
    drawn = _Draws(seed)
    corpus: dict[Split, list[Pair]] = {}
    corpus["train"] = drawn.take("train", train, reserved=False)
    known = frozenset(word for pair in corpus["train"] for word in _all_words(pair))
    corpus["validation"] = drawn.take("validation", validation, reserved=False, known=known)
    corpus["test"] = drawn.take("test", test, reserved=True, known=known)
    return corpus


def of_phenomenon(pairs: Iterable[Pair], phenomenon: Phenomenon | str) -> list[Pair]:
    """Those pairs that show a phenomenon. Raises ValueError when there is no such phenomenon."""
    try:
        wanted = Phenomenon(phenomenon)
    except ValueError:
        names = ", ".join(Phenomenon)
        raise ValueError(f"no phenomenon is called {phenomenon!r}; choose one of: {names}") from None
    return [pair for pair in pairs if wanted in pair.phenomena]


def pair_of(clause: Clause) -> Pair:
    """Reads one derivation aloud in both languages."""
    german, english = GermanWriter(), EnglishWriter()
    german_text, english_text = _spelled(german.sentence(clause)), _spelled(english.sentence(clause))
    return Pair(german_text, english_text, frozenset(german.shown | english.shown), combinations(clause))


def draw(chooser: Chooser) -> Pair:
    """One pair of a fitting length from the whole grammar, all choices made by `chooser`."""
    while True:
        try:
            pair = pair_of(Grammar(chooser).sentence())
        except DeadEnd:
            continue
        if all(SHORTEST <= len(words_of(text)) <= LONGEST for text in (pair.german, pair.english)):
            return pair


def words_of(sentence: str) -> list[str]:
    """The words of a sentence as written, without commas and the full stop."""
    return sentence.removesuffix(".").replace(",", "").split()


class _Draws:
    """Draws from the grammar, never the same sentence twice."""

    def __init__(self, seed: int) -> None:
        self._chance = Chance(seed)
        self._taken: set[str] = set()

    def take(
        self, split: Split, size: int, reserved: bool, known: frozenset[str] | None = None
    ) -> list[Pair]:
        pairs: list[Pair] = []
        misses = 0
        while len(pairs) < size:
            pair = draw(self._chance)
            new = pair.german not in self._taken and pair.english not in self._taken
            if new and pair.reserved is reserved and (known is None or known.issuperset(_all_words(pair))):
                self._taken |= {pair.german, pair.english}
                pairs.append(pair)
                misses = 0
            elif (misses := misses + 1) == _PATIENCE:
                raise ValueError(
                    f"only {len(pairs)} of {size} {split} sentences found, nothing new in {_PATIENCE} tries; "
                    "ask for fewer, or for more in train, since the other splits share its words"
                )
        return pairs


def _all_words(pair: Pair) -> set[str]:
    """The words of both sides, each marked with its language: "die" is not "die"."""
    return {f"de:{word}" for word in words_of(pair.german)} | {
        f"en:{word}" for word in words_of(pair.english)
    }


def _spelled(words: list[str]) -> str:
    """Commas attach to the word before; one comma is enough, and none stands at the end."""
    text = " ".join(words).replace(" ,", ",")
    while ",," in text:
        text = text.replace(",,", ",")
    text = text.rstrip(",")
    return text[0].upper() + text[1:] + "."
