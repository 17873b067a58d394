"""Prepare the dataset of a run: learn the vocabulary, and write all splits as ids.

Rank 0 prepares the data, and the other ranks only open it. A resumed run opens its existing data and doesn't
read the corpus. Data that is damaged, or was prepared from a different corpus or settings, is prepared
again.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import compress
from pathlib import Path

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import DataConfig, Direction
from course_lib.translation.data.corpora import ParallelText, corpus_fingerprint, load_corpus
from course_lib.translation.data.prepared import (
    CONTENTS,
    LAYOUT,
    VOCABULARY,
    Contents,
    PreparedData,
    digest,
    open_contents,
    read_intact_contents,
    require_same_settings,
    settings_of,
)
from course_lib.translation.data.token_pairs import IdPair, id_type, write_pairs
from course_lib.translation.data.vocabulary import Vocabulary

#: The number of pairs that are converted to ids at a time.
CHUNK = 20_000
# The possible origins of a vocabulary that was not `reused`: see `prepare`.
_LEARNED, _KEPT = "learned", "kept"


def prepare(
    config: DataConfig, folder: Path, vocabulary_file: Path, learn: bool, reused: Vocabulary | None = None
) -> PreparedData:
    """Open the data in `folder`, preparing it first if it is missing or damaged.

    Data from a different corpus, or prepared with different settings or a different vocabulary, is prepared
    again, too. If `learn` is true, the vocabulary is `reused` or, if that is None, learned from the training
    split; otherwise, training has already begun with the one in `vocabulary_file`. Raises BadInputError if
    the corpus or the vocabulary cannot be read, if no training pair is left, or if the data cannot be
    written.
    """
    origin = reused.fingerprint if reused else _LEARNED
    contents = read_intact_contents(folder, vocabulary_file)
    if contents and contents.are_of(config) and (not learn or contents.origin == origin):
        return open_contents(contents, folder, vocabulary_file)
    fingerprint = corpus_fingerprint(config)
    corpus = load_corpus(config)
    train = _without_empty(corpus.train)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONTENTS).unlink(missing_ok=True)
        if learn:
            sentences = [*train.german, *train.english]
            direction = config.direction if config.both_directions else None
            learned = reused or Vocabulary.learn(sentences, config.vocab_size, direction)
            learned.save(vocabulary_file)
        vocabulary = Vocabulary.load(vocabulary_file, config.direction)
        notes: list[str] = []
        if empty := len(corpus.train) - len(train):
            notes.append(
                f"dropped {empty:,} of {len(corpus.train):,} training pairs, because one side is empty"
            )
        dtype = id_type(len(vocabulary))
        splits = {"train": train, "validation": corpus.validation, "test": corpus.test}
        files = [
            path
            for name, text in splits.items()
            for path in _write_split(folder, name, text, vocabulary, config, dtype, notes)
        ]
        notes += _suspicions(train, {"validation": corpus.validation, "test": corpus.test})
        contents = Contents(
            layout=LAYOUT,
            corpus=fingerprint,
            settings=settings_of(config),
            origin=origin if learn else _KEPT,
            vocabulary=digest(vocabulary_file),
            dtype=dtype,
            notes=notes,
            files={path.name: digest(path) for path in files},
        )
        # Write this file last, because it marks the data as complete.
        atomic_write_text(folder / CONTENTS, json.dumps(contents.model_dump(), indent=1))
    except OSError as error:
        raise BadInputError(f"{folder}: cannot write the prepared data ({error.strerror})") from None
    return open_contents(contents, folder, vocabulary_file)


def refuse_other_data(config: DataConfig, folder: Path) -> None:
    """Raise BadInputError if `course prepare` must not write to a folder.

    That is the case if the folder is part of a run, or if it holds intact data with different settings.
    The message names each difference.
    """
    if any((each / "metrics.jsonl").exists() for each in (folder, folder.parent)):
        raise BadInputError(f"{folder}: this folder is part of a run. Choose another folder.")
    contents = read_intact_contents(folder, folder / VOCABULARY)
    if contents and contents.layout == LAYOUT:
        require_same_settings(config, contents, str(folder))


def _without_empty(train: ParallelText) -> ParallelText:
    """Return the pairs without an empty sentence. Raises BadInputError if there are none."""
    pairs = [pair for pair in zip(train.german, train.english, strict=True) if all(pair)]
    if not pairs:
        raise BadInputError(f"no training pair is left: all {len(train)} have an empty side")
    return ParallelText([german for german, _ in pairs], [english for _, english in pairs])


def _suspicions(train: ParallelText, evaluation: Mapping[str, ParallelText]) -> list[str]:
    """Return messages about text that may be a mistake. `evaluation` holds the other splits by name."""
    notes = []
    for language, lines in (("German", train.german), ("English", train.english)):
        if 2 * sum("\t" in line for line in lines) > len(lines):
            notes.append(
                f"most {language} training lines contain a tab. If they contain both languages, write each "
                "language to its own file"
            )
    for name, split in evaluation.items():
        pairs = list(zip(split.german, split.english, strict=True))
        if empty := sum(not all(pair) for pair in pairs):
            notes.append(f"{empty:,} of {len(pairs):,} {name} pairs have an empty side, and are scored")
        known = set(pairs).intersection(zip(train.german, train.english, strict=True))
        if seen := sum(pair in known for pair in pairs):
            notes.append(
                f"{seen:,} of {len(pairs):,} {name} pairs are also training pairs, so the score may be too "
                "high"
            )
    return notes


def _write_split(
    folder: Path,
    name: str,
    text: ParallelText,
    vocabulary: Vocabulary,
    config: DataConfig,
    dtype: str,
    notes: list[str],
) -> list[Path]:
    """Write a split as ids, and return the files. Append a message for the user to `notes` if necessary.

    The training split is written in both directions if `data.both_directions` is set. The other splits are
    also written as text, and their long pairs are always truncated. Raises BadInputError if all training
    pairs are too long and therefore dropped.
    """
    sources, targets = text.sides(config.direction)
    directions = [(vocabulary, sources, targets)]
    if name == "train" and config.both_directions:
        opposite: Direction = "en-de" if config.direction == "de-en" else "de-en"
        directions.append((vocabulary.in_direction(opposite), targets, sources))
    drop = name == "train" and config.too_long == "drop"
    # The start and end tokens are added later, and count towards max_length.
    longest = config.max_length - 2
    fits: list[bool] = []

    def chunks() -> Iterator[list[IdPair]]:
        for directed, inputs, outputs in directions:
            for first in range(0, len(inputs), CHUNK):
                chunk = slice(first, first + CHUNK)
                ids = directed.encode_source(inputs[chunk]), directed.encode(outputs[chunk])
                pairs = list(zip(*ids, strict=True))
                short = [max(map(len, pair)) <= longest for pair in pairs]
                fits.extend(short)
                kept = compress(pairs, short) if drop else pairs
                yield [(source[:longest], target[:longest]) for source, target in kept]

    ids_file, offsets_file = folder / f"{name}.ids", folder / f"{name}.offsets"
    write_pairs(chunks(), ids_file, offsets_file, dtype)
    if drop and not any(fits):
        raise BadInputError(
            f"no training pair is left: all {len(fits)} are longer than data.max_length {config.max_length}; "
            "raise it, or set data.too_long=truncate"
        )
    if long := fits.count(False):
        split, what = ("training" if name == "train" else name), "dropped" if drop else "truncated"
        counted = ", counted in both directions" if len(directions) > 1 else ""
        notes.append(
            f"{what} {long:,} of {len(fits):,} {split} pairs, because they are longer than "
            f"{config.max_length} tokens{counted}"
        )
    if name == "train":
        return [ids_file, offsets_file]
    text_file = folder / f"{name}.json"
    content = {"sources": sources, "references": targets}
    atomic_write_text(text_file, json.dumps(content, ensure_ascii=False))
    return [ids_file, offsets_file, text_file]
