"""Subwords for a model that translates both ways: the source says into which language (arXiv 1611.04558)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.translation.data.tokens.subwords import TO_ENGLISH, TO_GERMAN, Subwords


@dataclass(frozen=True)
class Towards:
    """Shared subwords for sentences that are to become `language`: its token stands before each of them."""

    subwords: Subwords
    language: str
    pad_id, start_id, end_id, unknown_id = range(4)

    def __len__(self) -> int:
        return len(self.subwords)

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Give each sentence its ids, without start and end, after the language's."""
        language = self.subwords.id_of(self.language)
        assert language is not None, "these subwords were learnt with it"
        # Nothing stays nothing: it has an empty translation.
        return [[language, *ids] if ids else [] for ids in self.subwords.encode(sentences)]

    def split_words(self, sentences: Sequence[str]) -> list[list[str]]:
        """Give each sentence its words, after the language's token."""
        return [[self.language, *words] for words in self.subwords.split_words(sentences)]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Give each list of ids its text; the language leaves no trace."""
        return self.subwords.decode(ids)

    def as_text(self) -> str:
        """Write everything as JSON."""
        return self.subwords.as_text()


@dataclass(frozen=True)
class DirectedSubwords:
    """One vocabulary for both languages, whose sources begin with the language that they are to become.

    What it is asked to translate is German and is to become English. `towards_german` is for the other half
    of what the model learns from.
    """

    subwords: Subwords
    pad_id, start_id, end_id, unknown_id = range(4)

    @property
    def source(self) -> Towards:
        """The vocabulary of German that is to become English."""
        return Towards(self.subwords, TO_ENGLISH)

    @property
    def towards_german(self) -> Towards:
        """The vocabulary of English that is to become German."""
        return Towards(self.subwords, TO_GERMAN)

    @property
    def target(self) -> Subwords:
        """The vocabulary of what is written."""
        return self.subwords

    @property
    def fingerprint(self) -> str:
        """A hash that two have in common only where they are the same."""
        return self.subwords.fingerprint

    def save(self, path: Path) -> None:
        """Write everything as one JSON file, whole or not at all."""
        self.subwords.save(path)
