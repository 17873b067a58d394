"""Sentences made ready once: vocabularies, and all splits as ids in files that the processes of a run share.

The first process prepares, the others only open what it has written. A run that starts again finds its data
ready and reads no corpus. What is damaged, or was made from other data or options, is made anew.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import DataConfig
from course_lib.translation.data.corpora import corpus_fingerprint, load_corpus
from course_lib.translation.data.corpora.parallel_text import ParallelText
from course_lib.translation.data.tokens.bpe_dropout import ResampledPairs
from course_lib.translation.data.tokens.data_writer import DataWriter, digest, some_of
from course_lib.translation.data.tokens.token_pairs import WORD_NUMBERS, TokenPairs
from course_lib.translation.data.tokens.vocabularies import (
    Vocabularies,
    learn_vocabularies,
    load_vocabularies,
    subwords_of,
)

#: How the files are laid out. Older ones are made anew.
LAYOUT = 2
#: Where the vocabularies come from, where it is not another run: that has a fingerprint.
_LEARNT, _OF_THE_RUN = "learnt", "of the run"
#: What shapes the ids, apart from the corpus.
SHAPING = (
    "tokenizer",
    "vocab_size",
    "min_count",
    "max_length",
    "too_long",
    "both_directions",
    "bpe_dropout",
)


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


def prepare(
    config: DataConfig, folder: Path, vocabulary: Path, learn: bool, given: Vocabularies | None = None
) -> PreparedData:
    """Open the data in `folder`, after making it where it isn't there, whole and of this config.

    `vocabulary` is the file of the vocabularies. With `learn` they may be learnt anew, from the training
    split alone, or be replaced by those `given`; without, a run has begun with those in the file. Raises
    BadInputError where the corpus or the vocabulary can't be read or nothing can be written.
    """
    key, origin = _key(config), given.fingerprint if given else _LEARNT
    contents = _whole(folder, vocabulary)
    if contents and contents["key"] == key and (contents["origin"] == origin or not learn):
        return _opened(folder, vocabulary, contents)
    corpus = load_corpus(config)
    train, empty = _without_empty(corpus.train)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "contents.json").unlink(missing_ok=True)
        if learn:
            (given or learn_vocabularies(train, config)).save(vocabulary)
        writer = DataWriter(folder, load_vocabularies(vocabulary), config)
        if empty:
            writer.notes.append(
                f"dropped {some_of(empty, len(corpus.train))} training pairs with an empty side"
            )
        writer.train(train)
        writer.scored("validation", corpus.validation)
        writer.scored("test", corpus.test)
        facts = {"key": key, "origin": origin if learn else _OF_THE_RUN, "bpe_dropout": config.bpe_dropout}
        writer.finish({**facts, "vocabulary": digest(vocabulary)})
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

    vocabularies, train = load_vocabularies(vocabulary), pairs("train")
    if "train.words.ids" in contents["files"]:
        numbers = TokenPairs.mapped(folder / "train.words.ids", folder / "train.words.offsets", WORD_NUMBERS)
        words = [tuple(word) for word in json.loads((folder / "train.words.json").read_text("utf-8"))]
        train = ResampledPairs(train, numbers, words, subwords_of(vocabularies), contents["bpe_dropout"])
    return PreparedData(
        vocabularies=vocabularies,
        train=train,
        validation=scored("validation"),
        test=scored("test"),
        notes=contents["notes"],
        fingerprint=hashlib.sha256(json.dumps(contents["files"], sort_keys=True).encode()).hexdigest(),
    )


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
        known = {vocabulary: contents["vocabulary"]}
        known |= {folder / name: expected for name, expected in contents["files"].items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None  # Not there, or not ours.
    whole = all(path.is_file() and digest(path) == expected for path, expected in known.items())
    return contents if whole else None
