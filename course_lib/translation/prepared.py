"""Sentences made ready once: vocabularies, and all splits as ids in files that the processes of a run share.

The first process prepares, the others only open what it has written. A run that starts again finds its data
ready and reads no corpus. What is damaged, or was made from other data or options, is made anew.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from course_lib.atomic_files import atomic_write_text
from course_lib.translation.batches import IdPair
from course_lib.translation.config import DataConfig
from course_lib.translation.corpora import corpus_fingerprint, load_corpus
from course_lib.translation.directed import DirectedSubwords
from course_lib.translation.errors import BadInputError
from course_lib.translation.parallel_text import ParallelText
from course_lib.translation.token_pairs import TokenPairs, smallest_type, write_pairs
from course_lib.translation.vocabularies import (
    Vocabularies,
    Vocabulary,
    learn_vocabularies,
    load_vocabularies,
)

#: How the files are laid out. Older ones are made anew.
LAYOUT = 1
#: So many pairs become ids at a time.
CHUNK = 20_000
#: What shapes the ids, apart from the corpus.
SHAPING = ("tokens", "vocabulary_size", "min_count", "max_length", "too_long", "both_directions")


@dataclass(frozen=True)
class Scored:
    """A split to score on: as people wrote it, and as ids. No sentence is ever left out of it."""

    text: ParallelText
    pairs: TokenPairs

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True)
class PreparedData:
    """All that a run learns from and is scored on."""

    vocabularies: Vocabularies
    train: TokenPairs
    validation: Scored
    test: Scored
    notes: list[str]
    """What was left out or cut, for the user: "dropped 12 of 29,000 training pairs longer than 64 tokens"."""
    fingerprint: str
    """A hash that two have in common only where every id and every reference is the same."""


def prepare(config: DataConfig, folder: Path, vocabulary: Path, learn: bool) -> PreparedData:
    """Open the data in `folder`, after making it where it isn't there, whole and of this config.

    `vocabulary` is the file of the vocabularies. With `learn` they may be learnt anew, from the training
    split alone; without, a run has begun with those in the file. Raises BadInputError where the corpus or the
    vocabulary can't be read or nothing can be written.
    """
    key = _key(config)
    contents = _whole(folder, vocabulary)
    if contents and contents["key"] == key and (contents["learnt"] or not learn):
        return _opened(folder, vocabulary, contents)
    corpus = load_corpus(config)
    train, empty = _without_empty(corpus.train)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "contents.json").unlink(missing_ok=True)
        if learn:
            learn_vocabularies(train, config).save(vocabulary)
        writer = _Writer(folder, load_vocabularies(vocabulary), config)
        if empty:
            writer.notes.append(f"dropped {_of(empty, len(corpus.train))} training pairs with an empty side")
        writer.train(train)
        writer.scored("validation", corpus.validation)
        writer.scored("test", corpus.test)
        writer.finish({"key": key, "vocabulary": _digest(vocabulary), "learnt": learn})
    except OSError as error:
        raise BadInputError(f"{folder}: the run cannot be kept there ({error.strerror})") from None
    return open_prepared(folder, vocabulary)


def open_prepared(folder: Path, vocabulary: Path) -> PreparedData:
    """Open what `prepare` has made. Raises BadInputError where that isn't there, or damaged."""
    contents = _whole(folder, vocabulary)
    if contents is None:
        raise BadInputError(
            f"{folder}: expected the data that the first process has prepared, but it is not there or not "
            "whole; do all machines see the same run_folder?"
        )
    return _opened(folder, vocabulary, contents)


def _opened(folder: Path, vocabulary: Path, contents: dict[str, Any]) -> PreparedData:
    def pairs(name: str) -> TokenPairs:
        return TokenPairs.mapped(folder / f"{name}.ids", folder / f"{name}.offsets", contents["dtype"])

    def scored(name: str) -> Scored:
        text = json.loads((folder / f"{name}.json").read_text("utf-8"))
        return Scored(ParallelText(text["german"], text["english"]), pairs(name))

    return PreparedData(
        vocabularies=load_vocabularies(vocabulary),
        train=pairs("train"),
        validation=scored("validation"),
        test=scored("test"),
        notes=contents["notes"],
        fingerprint=hashlib.sha256(json.dumps(contents["files"], sort_keys=True).encode()).hexdigest(),
    )


class _Writer:
    """Writes the splits of one corpus, one by one, and counts what becomes of long sentences."""

    def __init__(self, folder: Path, vocabularies: Vocabularies, config: DataConfig) -> None:
        self.notes: list[str] = []
        self._folder = folder
        self._vocabularies = vocabularies
        self._config = config
        self._dtype = smallest_type(max(len(vocabularies.source), len(vocabularies.target)))
        self._long = 0

    def train(self, text: ParallelText) -> None:
        drop = self._config.too_long == "drop"
        chunks, pairs = self._chunks(text, drop), len(text)
        if self._config.both_directions:
            chunks, pairs = chain(chunks, self._backwards(text, drop)), 2 * pairs
        self._write("train", chunks)
        if drop and self._long == pairs:
            raise BadInputError(
                f"no training pair is left: all {pairs} are longer than data.max_length "
                f"{self._config.max_length}; raise it, or set data.too_long to cut"
            )
        if self._long:
            many = f"{_of(self._long, pairs)} training pairs longer than {self._config.max_length} tokens"
            ways = ", each counted in both directions" if self._config.both_directions else ""
            self.notes.append(f"{'dropped' if drop else 'cut'} {many}{ways}")

    def scored(self, name: str, text: ParallelText) -> None:
        self._write(name, self._chunks(text, drop=False))
        content = {"german": text.german, "english": text.english}
        atomic_write_text(self._folder / f"{name}.json", json.dumps(content, ensure_ascii=False))
        if self._long:
            many = f"{_of(self._long, len(text))} {name} pairs longer than {self._config.max_length} tokens"
            self.notes.append(f"cut {many}; none is left out")

    def finish(self, facts: dict[str, Any]) -> None:
        """Say that all is there, and of what it was made. Only now can it be opened."""
        names = [f"train.{kind}" for kind in ("ids", "offsets")]
        names += [
            f"{split}.{kind}" for split in ("validation", "test") for kind in ("ids", "offsets", "json")
        ]
        contents = {
            **facts,
            "dtype": self._dtype,
            "notes": self.notes,
            "files": {name: _digest(self._folder / name) for name in names},
        }
        atomic_write_text(self._folder / "contents.json", json.dumps(contents, indent=1))

    def _write(self, name: str, chunks: Iterable[list[IdPair]]) -> None:
        self._long = 0
        ids, offsets = (self._folder / f"{name}.{kind}" for kind in ("ids", "offsets"))
        write_pairs(chunks, ids, offsets, self._dtype)

    def _chunks(self, text: ParallelText, drop: bool) -> Iterator[list[IdPair]]:
        source, target = self._vocabularies.source, self._vocabularies.target
        return self._encoded(source, text.german, target, text.english, drop)

    def _backwards(self, text: ParallelText, drop: bool) -> Iterator[list[IdPair]]:
        assert isinstance(self._vocabularies, DirectedSubwords)
        source, target = self._vocabularies.towards_german, self._vocabularies.target
        return self._encoded(source, text.english, target, text.german, drop)

    def _encoded(
        self,
        source_vocabulary: Vocabulary,
        source_text: list[str],
        target_vocabulary: Vocabulary,
        target_text: list[str],
        drop: bool,
    ) -> Iterator[list[IdPair]]:
        # Start and end count too, and the end has to stay: cut before they are there.
        longest = self._config.max_length - 2
        for first in range(0, len(source_text), CHUNK):
            part = slice(first, first + CHUNK)
            sources = source_vocabulary.encode(source_text[part])
            targets = target_vocabulary.encode(target_text[part])
            chunk: list[IdPair] = []
            for source, target in zip(sources, targets, strict=True):
                too_long = max(len(source), len(target)) > longest
                self._long += too_long
                if not (too_long and drop):
                    chunk.append((source[:longest], target[:longest]))
            yield chunk


def _without_empty(train: ParallelText) -> tuple[ParallelText, int]:
    """Leave out the pairs with an empty side, which teach nothing; say how many."""
    both = [pair for pair in zip(train.german, train.english, strict=True) if all(pair)]
    empty = len(train) - len(both)
    if not both:
        raise BadInputError(
            f"expected training pairs with something on either side, and all {len(train)} have an empty side"
        )
    return ParallelText([german for german, _ in both], [english for _, english in both]), empty


def _key(config: DataConfig) -> str:
    shaping = {name: getattr(config, name) for name in SHAPING}
    what = [LAYOUT, corpus_fingerprint(config), shaping]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def _whole(folder: Path, vocabulary: Path) -> dict[str, Any] | None:
    """Read the contents of a folder in which every file is as it was written; else give None."""
    try:
        contents: dict[str, Any] = json.loads((folder / "contents.json").read_text("utf-8"))
        if contents["vocabulary"] == _digest(vocabulary) and all(
            _digest(folder / name) == digest for name, digest in contents["files"].items()
        ):
            return contents
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    return None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _of(some: int, all_: int) -> str:
    return f"{some:,} of {all_:,}"
