"""Writes the splits of a corpus as ids, and counts what becomes of long sentences."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import DataConfig
from course_lib.translation.data.corpora.parallel_text import ParallelText
from course_lib.translation.data.epoch_plan import IdPair
from course_lib.translation.data.tokens.directed import DirectedSubwords, Towards
from course_lib.translation.data.tokens.subwords import Subwords
from course_lib.translation.data.tokens.token_pairs import WORD_NUMBERS, smallest_type, write_pairs
from course_lib.translation.data.tokens.vocabularies import Vocabularies, Vocabulary

#: So many pairs become ids at a time.
CHUNK = 20_000


@dataclass(frozen=True)
class Way:
    """One direction of translation through a text."""

    source: Vocabulary
    source_text: list[str]
    target: Vocabulary
    target_text: list[str]

    def parts(self) -> Iterator[tuple[list[str], list[str]]]:
        """Give the sentences of both sides, some at a time."""
        for first in range(0, len(self.source_text), CHUNK):
            part = slice(first, first + CHUNK)
            yield self.source_text[part], self.target_text[part]


class DataWriter:
    """Writes one corpus into a folder, split by split. `notes` says what was left out or cut."""

    def __init__(self, folder: Path, vocabularies: Vocabularies, config: DataConfig) -> None:
        self.notes: list[str] = []
        self._folder = folder
        self._vocabularies = vocabularies
        self._config = config
        self._dtype = smallest_type(max(len(vocabularies.source), len(vocabularies.target)))
        self._files: list[str] = []
        # Of the split that is being written: how many pairs are too long, and which ones stay.
        self._long = 0
        self._stays: list[bool] = []

    def train(self, text: ParallelText) -> None:
        """Write the training split, in both directions where the config says so."""
        drop = self._config.too_long == "drop"
        ways = [self._forth(text)]
        if self._config.both_directions:
            ways.append(self._back(text))
        self._write("train", ways, drop)
        if not any(self._stays):
            raise BadInputError(
                f"no training pair is left: all {len(self._stays)} are longer than data.max_length "
                f"{self._config.max_length}; raise it, or set data.too_long to truncate"
            )
        if self._long:
            counted = ", each counted in both directions" if self._config.both_directions else ""
            self._note(f"{'dropped' if drop else 'truncated'}", "training", counted)
        if self._config.bpe_dropout:
            self._write_words(ways)

    def scored(self, name: str, text: ParallelText) -> None:
        """Write a split to score on, with its text. No sentence is left out."""
        self._write(name, [self._forth(text)], drop=False)
        content = {"german": text.german, "english": text.english}
        self._write_json(f"{name}.json", content)
        if self._long:
            self._note("truncated", name, "; none is left out")

    def finish(self, facts: dict[str, Any]) -> None:
        """Say that all is there, and of what it was made. Only now can it be opened."""
        files = {name: digest(self._folder / name) for name in self._files}
        contents = {**facts, "dtype": self._dtype, "notes": self.notes, "files": files}
        atomic_write_text(self._folder / "contents.json", json.dumps(contents, indent=1))

    def _forth(self, text: ParallelText) -> Way:
        return Way(self._vocabularies.source, text.german, self._vocabularies.target, text.english)

    def _back(self, text: ParallelText) -> Way:
        assert isinstance(self._vocabularies, DirectedSubwords), "learnt with this config"
        subwords = self._vocabularies
        return Way(subwords.towards_german, text.english, subwords.target, text.german)

    def _write(self, name: str, ways: list[Way], drop: bool) -> None:
        self._long, self._stays = 0, []
        self._write_pairs(name, (chunk for way in ways for chunk in self._encoded(way, drop)), self._dtype)

    def _encoded(self, way: Way, drop: bool) -> Iterator[list[IdPair]]:
        # Start and end count too, and the end has to stay: cut before they are there.
        longest = self._config.max_length - 2
        for sources, targets in way.parts():
            pairs = list(zip(way.source.encode(sources), way.target.encode(targets), strict=True))
            fits = [max(len(source), len(target)) <= longest for source, target in pairs]
            stays = [fit or not drop for fit in fits]
            self._long += fits.count(False)
            self._stays += stays
            yield [(source[:longest], target[:longest]) for source, target in compress(pairs, stays)]

    def _write_words(self, ways: list[Way]) -> None:
        """Write the same training pairs as words, for `ResampledPairs` to split."""
        numbers: dict[tuple[int, str], int] = {}
        stays = iter(self._stays)

        def numbered(side: int, vocabulary: Vocabulary, sentences: list[str]) -> list[list[int]]:
            assert isinstance(vocabulary, Subwords | Towards), "the config has checked it"
            split = vocabulary.split_words(sentences)
            return [[numbers.setdefault((side, word), len(numbers)) for word in words] for words in split]

        def chunks() -> Iterator[list[IdPair]]:
            for way in ways:
                for sources, targets in way.parts():
                    sides = numbered(0, way.source, sources), numbered(1, way.target, targets)
                    yield [pair for pair in zip(*sides, strict=True) if next(stays)]

        self._write_pairs("train.words", chunks(), WORD_NUMBERS)
        self._write_json("train.words.json", list(numbers))

    def _write_pairs(self, name: str, chunks: Iterable[list[IdPair]], dtype: str) -> None:
        ids, offsets = f"{name}.ids", f"{name}.offsets"
        write_pairs(chunks, self._folder / ids, self._folder / offsets, dtype)
        self._files += [ids, offsets]

    def _write_json(self, name: str, content: object) -> None:
        atomic_write_text(self._folder / name, json.dumps(content, ensure_ascii=False))
        self._files.append(name)

    def _note(self, what: str, name: str, more: str) -> None:
        many = some_of(self._long, len(self._stays))
        self.notes.append(f"{what} {many} {name} pairs longer than {self._config.max_length} tokens{more}")


def some_of(some: int, all_: int) -> str:
    """Write "12 of 29,000"."""
    return f"{some:,} of {all_:,}"


def digest(path: Path) -> str:
    """Give the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
