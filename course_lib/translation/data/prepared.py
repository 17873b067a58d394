"""The prepared dataset of a run: vocabularies, and all splits as ids in files shared by all processes.

Rank 0 prepares the data, and the other ranks only open it. A resumed run opens its existing data and doesn't
read the corpus. Data that is damaged, or was prepared from another corpus or with other settings, is prepared
again.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import DataConfig, MayChangeMarker, yaml_value
from course_lib.translation.data.bpe_dropout import BpeDropoutPairs
from course_lib.translation.data.corpora import ParallelText, corpus_fingerprint, load_corpus
from course_lib.translation.data.subwords import BidirectionalSubwords, Subwords
from course_lib.translation.data.token_pairs import WORD_IDS, IdPair, TokenPairs, id_type, write_pairs
from course_lib.translation.data.vocabularies import (
    Vocabularies,
    Vocabulary,
    learn_vocabularies,
    load_vocabularies,
)

#: The version of the file layout. Data in another layout is prepared again.
LAYOUT = 4
#: The file of the vocabularies in a folder written by `course prepare`.
VOCABULARY = "vocabulary.json"
#: The number of pairs that are converted to ids at a time.
CHUNK = 20_000
# The possible origins of vocabularies that were not `given`: see `prepare`.
_LEARNED, _KEPT = "learned", "kept"


@dataclass(frozen=True)
class EvaluationSplit:
    """A split for evaluation, as text and as ids. It contains every sentence of the corpus's split."""

    sources: list[str]
    references: list[str]
    pairs: TokenPairs

    @property
    def source_ids(self) -> list[Sequence[int]]:
        """The sources as ids."""
        return [source for source, _ in self.pairs]


@dataclass(frozen=True)
class PreparedData:
    """A run's vocabularies and its training, validation and test splits."""

    vocabularies: Vocabularies
    train: TokenPairs
    validation: EvaluationSplit
    test: EvaluationSplit
    notes: list[str]
    """Messages for the user about dropped and truncated pairs."""
    fingerprint: str
    """A hash of the data files, which hold the ids and the texts. It doesn't cover the vocabularies."""


def prepare(
    config: DataConfig, folder: Path, vocabulary: Path, learn: bool, given: Vocabularies | None = None
) -> PreparedData:
    """Open the data in `folder`, preparing it first if it is missing or damaged.

    It is also prepared again if it was made from another corpus, with other settings or with other
    vocabularies. `vocabulary` is the path of the vocabulary file. If `learn` is true, the vocabularies are
    `given` or, if that is None, learned from the training split; otherwise, training has already begun with
    those in the file. Raises BadInputError if the corpus or the vocabulary cannot be read, if no training
    pair is left, or if the data cannot be written.
    """
    contents = _read_contents(folder, vocabulary)
    if not learn and contents and _is_same_data(config, contents):
        return _open(folder, vocabulary, contents)
    key, origin = _key(config), given.fingerprint if given else _LEARNED
    if learn and contents and (contents["key"], contents["origin"]) == (key, origin):
        return _open(folder, vocabulary, contents)
    corpus = load_corpus(config)
    train = _without_empty(corpus.train)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "contents.json").unlink(missing_ok=True)
        if learn:
            (given or learn_vocabularies(train, config)).save(vocabulary)
        writer = _Writer(folder, load_vocabularies(vocabulary, config.direction), config)
        if empty := len(corpus.train) - len(train):
            writer.notes.append(
                f"dropped {empty:,} of {len(corpus.train):,} training pairs with an empty side"
            )
        writer.write_train(train)
        writer.write_evaluation_split("validation", corpus.validation)
        writer.write_evaluation_split("test", corpus.test)
        writer.write_contents(vocabulary, key, origin if learn else _KEPT)
    except OSError as error:
        raise BadInputError(f"{folder}: cannot write the prepared data ({error.strerror})") from None
    return open_prepared(folder, vocabulary)


def open_prepared(folder: Path, vocabulary: Path) -> PreparedData:
    """Open the data that `prepare` wrote into `folder`. `vocabulary` is the path of the vocabulary file.

    Raises BadInputError if the data or the vocabulary file is missing or damaged.
    """
    contents = _read_contents(folder, vocabulary)
    if contents is None:
        raise BadInputError(
            f"{folder}: the prepared data of the run is missing or incomplete. Resume the run, which "
            "prepares it again. If it runs on several machines, check that all see the same run_folder."
        )
    return _open(folder, vocabulary, contents)


def open_existing(config: DataConfig, folder: Path, vocabulary: Path) -> PreparedData:
    """Open the data of a run with `open_given` if `data.prepared` is set, otherwise with `open_prepared`."""
    return open_given(config, Path(config.prepared)) if config.prepared else open_prepared(folder, vocabulary)


def validation_split(
    config: DataConfig, folder: Path, vocabulary: Path, vocabularies: Vocabularies
) -> tuple[list[Sequence[int]], list[str]]:
    """Return the validation split of a run: the sources as ids, truncated, and the references.

    It is read from the prepared data with `open_existing`. If the folder that `data.prepared` names no longer
    exists, as after training from a copy on a node's own disk, it is read from the corpus. Raises
    BadInputError if neither can be read.
    """
    if config.prepared is None or Path(config.prepared).exists():
        split = open_existing(config, folder, vocabulary).validation
        return split.source_ids, split.references
    try:
        sources, references = load_corpus(config).validation.sides(config.direction)
    except BadInputError as error:
        raise BadInputError(
            f"data.prepared: {config.prepared} no longer exists, and the corpus cannot be read: {error}"
        ) from None
    longest = config.max_length - 2  # without the start and end tokens
    return [ids[:longest] for ids in vocabularies.source.encode(sources)], references


def open_given(config: DataConfig, folder: Path) -> PreparedData:
    """Open data that `course prepare` wrote into `folder`. Raises BadInputError if it doesn't fit the config.

    It is also raised if the data is missing or damaged, or from another version of the course.
    """
    origin = f"data.prepared: {folder}"
    try:
        contents = json.loads((folder / "contents.json").read_text("utf-8"))
        layout = contents.get("layout", "unknown")
    except (OSError, ValueError, AttributeError):
        raise BadInputError(
            f"{origin} holds no prepared data, or only part of it. Run `course prepare` first."
        ) from None
    if layout != LAYOUT:
        raise BadInputError(
            f"{origin} was prepared by another version of the course (layout {layout}, this version needs "
            f"{LAYOUT}). Run `course prepare` again, into an empty folder."
        )
    _require_same_settings(config, contents["settings"], origin)
    if not _is_same_data(config, contents):
        raise BadInputError(f"{origin} was prepared from another corpus. Run `course prepare` again.")
    complete = _read_contents(folder, folder / VOCABULARY)
    if complete is None:
        raise BadInputError(
            f"{origin} is damaged or incomplete. Run `course prepare` again, or copy it again."
        )
    return _open(folder, folder / VOCABULARY, complete)


def refuse_other_data(config: DataConfig, folder: Path) -> None:
    """Raise BadInputError if `course prepare` must not write to a folder.

    That is the case if the folder is part of a run, or if it holds intact data with other settings. The
    message names each difference.
    """
    of_a_run = (folder / "contents.json").exists() and not (folder / VOCABULARY).exists()
    if of_a_run or (folder / "metrics.jsonl").exists():
        raise BadInputError(f"{folder}: this folder is part of a run. Choose another folder.")
    contents = _read_contents(folder, folder / VOCABULARY)
    if contents and contents.get("layout") == LAYOUT:
        _require_same_settings(config, contents["settings"], str(folder))


def _require_same_settings(config: DataConfig, prepared: dict[str, Any], origin: str) -> None:
    differences = [
        f"data.{name} is {yaml_value(prepared.get(name))} there and {yaml_value(ours)} here"
        for name, ours in _settings(config).items()
        if prepared.get(name) != ours
    ]
    if differences:
        raise BadInputError(
            f"{origin} was prepared with other settings: {'; '.join(differences)}. Use the same settings, or "
            "another folder."
        )


def _open(folder: Path, vocabulary: Path, contents: dict[str, Any]) -> PreparedData:
    def pairs(name: str, dtype: str) -> TokenPairs:
        return TokenPairs.mapped(folder / f"{name}.ids", folder / f"{name}.offsets", dtype)

    def evaluation_split(name: str) -> EvaluationSplit:
        text = json.loads((folder / f"{name}.json").read_text("utf-8"))
        return EvaluationSplit(text["sources"], text["references"], pairs(name, contents["dtype"]))

    vocabularies = load_vocabularies(vocabulary, contents["settings"]["direction"])
    train = pairs("train", contents["dtype"])
    if "train.words.ids" in contents["files"]:
        words = [tuple(word) for word in json.loads((folder / "train.words.json").read_text("utf-8"))]
        word_pairs, rate = pairs("train.words", WORD_IDS), contents["settings"]["bpe_dropout"]
        source, target = vocabularies.source, vocabularies.target
        assert isinstance(source, Subwords), "BPE dropout needs subwords"
        assert isinstance(target, Subwords), "BPE dropout needs subwords"
        longest = contents["settings"]["max_length"] - 2  # without the start and end tokens
        train = BpeDropoutPairs(train, word_pairs, words, (source, target), rate, longest)
    return PreparedData(
        vocabularies=vocabularies,
        train=train,
        validation=evaluation_split("validation"),
        test=evaluation_split("test"),
        notes=contents["notes"],
        fingerprint=hashlib.sha256(json.dumps(contents["files"], sort_keys=True).encode()).hexdigest(),
    )


def _without_empty(train: ParallelText) -> ParallelText:
    """Drop the pairs in which a sentence is empty."""
    pairs = [pair for pair in zip(train.german, train.english, strict=True) if all(pair)]
    if not pairs:
        raise BadInputError(f"no training pair is left: all {len(train)} have an empty side")
    return ParallelText([german for german, _ in pairs], [english for _, english in pairs])


def _key(config: DataConfig) -> str:
    """Return a hash of what the prepared data depends on, except for vocabularies from another run."""
    facts = [LAYOUT, corpus_fingerprint(config), _settings(config)]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _is_same_data(config: DataConfig, contents: dict[str, Any]) -> bool:
    """Return whether data was prepared from the corpus of the config and with its settings.

    The corpus isn't compared if it is missing, as on a node to which only the prepared data was copied.
    """
    try:
        return bool(contents["key"] == _key(config))
    except BadInputError:
        return contents.get("layout") == LAYOUT and contents["settings"] == _settings(config)


def _settings(config: DataConfig) -> dict[str, Any]:
    """Return the settings that influence the ids."""
    fields = DataConfig.model_fields.items()
    return {name: getattr(config, name) for name, field in fields if MayChangeMarker not in field.metadata}


def _read_contents(folder: Path, vocabulary: Path) -> dict[str, Any] | None:
    """Read contents.json and verify all checksums. Return None if any file is missing or damaged."""
    try:
        contents: dict[str, Any] = json.loads((folder / "contents.json").read_text("utf-8"))
        checksums = {vocabulary: contents["vocabulary"]}
        checksums |= {folder / name: checksum for name, checksum in contents["files"].items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    intact = all(path.is_file() and _digest(path) == checksum for path, checksum in checksums.items())
    return contents if intact else None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


#: The sentences of one direction of translation: the vocabularies, the sources and the targets.
_Direction = tuple[Vocabularies, list[str], list[str]]


def _chunks(directions: list[_Direction]) -> Iterator[_Direction]:
    for vocabularies, sources, targets in directions:
        for first in range(0, len(sources), CHUNK):
            yield vocabularies, sources[first : first + CHUNK], targets[first : first + CHUNK]


class _Writer:
    """A writer of prepared data, one split at a time. `notes` holds messages for the user."""

    def __init__(self, folder: Path, vocabularies: Vocabularies, config: DataConfig) -> None:
        self.notes: list[str] = []
        self._folder = folder
        self._vocabularies = vocabularies
        self._config = config
        self._dtype = id_type(max(len(vocabularies.source), len(vocabularies.target)))
        self._files: list[str] = []

    def write_train(self, text: ParallelText) -> None:
        """Write the training split, in both directions if `data.both_directions` is set.

        Raises BadInputError if all pairs are too long and therefore dropped.
        """
        sources, targets = text.sides(self._config.direction)
        directions: list[_Direction] = [(self._vocabularies, sources, targets)]
        if self._config.both_directions:
            assert isinstance(self._vocabularies, BidirectionalSubwords), "learned for both directions"
            directions.append((self._vocabularies.reversed, targets, sources))
        drop = self._config.too_long == "drop"
        fits = self._write("train", directions, drop)
        if drop and not any(fits):
            raise BadInputError(
                f"no training pair is left: all {len(fits)} are longer than data.max_length "
                f"{self._config.max_length}; raise it, or set data.too_long=truncate"
            )
        if self._config.bpe_dropout:
            self._write_words(directions, fits if drop else [True] * len(fits))

    def write_evaluation_split(self, name: str, text: ParallelText) -> None:
        """Write the evaluation split `name`, "validation" or "test", as ids, truncated, and as text."""
        sources, references = text.sides(self._config.direction)
        self._write(name, [(self._vocabularies, sources, references)], drop=False)
        self._write_json(f"{name}.json", {"sources": sources, "references": references})

    def write_contents(self, vocabulary: Path, key: str, origin: str) -> None:
        """Write the settings and all checksums to contents.json, which marks the data as complete."""
        contents = {
            "layout": LAYOUT,
            "key": key,
            "settings": _settings(self._config),
            "origin": origin,
            "vocabulary": _digest(vocabulary),
            "dtype": self._dtype,
            "notes": self.notes,
            "files": {name: _digest(self._folder / name) for name in self._files},
        }
        atomic_write_text(self._folder / "contents.json", json.dumps(contents, indent=1))

    def _write(self, name: str, directions: list[_Direction], drop: bool) -> list[bool]:
        """Write the pairs of a split as ids. Return, for each pair, whether it is short enough.

        Pairs that exceed the maximum length are dropped if `drop` is true, and truncated otherwise.
        """
        # The start and end tokens are added later, and count towards max_length.
        longest = self._config.max_length - 2
        fits: list[bool] = []

        def chunks() -> Iterator[list[IdPair]]:
            for vocabularies, sources, targets in _chunks(directions):
                ids = vocabularies.source.encode(sources), vocabularies.target.encode(targets)
                pairs = list(zip(*ids, strict=True))
                short = [max(map(len, pair)) <= longest for pair in pairs]
                fits.extend(short)
                kept = compress(pairs, short) if drop else pairs
                yield [(source[:longest], target[:longest]) for source, target in kept]

        self._write_pairs(name, chunks(), self._dtype)
        if long := fits.count(False):
            split, what = ("training" if name == "train" else name), "dropped" if drop else "truncated"
            counted = ", counted in both directions" if len(directions) > 1 else ""
            self.notes.append(
                f"{what} {long:,} of {len(fits):,} {split} pairs longer than {self._config.max_length} tokens"
                f"{counted}"
            )
        return fits

    def _write_words(self, directions: list[_Direction], kept: list[bool]) -> None:
        """Write the training pairs that are `kept` as word indices, for `BpeDropoutPairs`."""
        word_ids: dict[tuple[int, str], int] = {}
        keep = iter(kept)

        def ids_of(side: int, vocabulary: Vocabulary, sentences: list[str]) -> list[list[int]]:
            assert isinstance(vocabulary, Subwords), "BPE dropout needs subwords"
            split = vocabulary.split_words(sentences)
            return [[word_ids.setdefault((side, word), len(word_ids)) for word in words] for words in split]

        def chunks() -> Iterator[list[IdPair]]:
            for vocabularies, sources, targets in _chunks(directions):
                sides = ids_of(0, vocabularies.source, sources), ids_of(1, vocabularies.target, targets)
                yield [pair for pair in zip(*sides, strict=True) if next(keep)]

        self._write_pairs("train.words", chunks(), WORD_IDS)
        self._write_json("train.words.json", list(word_ids))

    def _write_pairs(self, name: str, chunks: Iterable[list[IdPair]], dtype: str) -> None:
        ids, offsets = f"{name}.ids", f"{name}.offsets"
        write_pairs(chunks, self._folder / ids, self._folder / offsets, dtype)
        self._files += [ids, offsets]

    def _write_json(self, name: str, content: object) -> None:
        atomic_write_text(self._folder / name, json.dumps(content, ensure_ascii=False))
        self._files.append(name)
