"""Prepare the dataset of a run: learn the vocabularies, and write all splits as ids.

Rank 0 prepares the data, and the other ranks only open it. A resumed run opens its existing data and doesn't
read the corpus. Data that is damaged, or was prepared from a different corpus or settings, is prepared
again.
"""

import json
from collections.abc import Iterable, Iterator
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
from course_lib.translation.data.vocabularies import Vocabularies, learn_vocabularies, load_vocabularies

#: The number of pairs that are converted to ids at a time.
CHUNK = 20_000
# The possible origins of vocabularies that were not `reused`: see `prepare`.
_LEARNED, _KEPT = "learned", "kept"


def prepare(
    config: DataConfig, folder: Path, vocabulary: Path, learn: bool, reused: Vocabularies | None = None
) -> PreparedData:
    """Open the data in `folder`, preparing it first if it is missing or damaged.

    Data from a different corpus, or prepared with different settings or vocabularies, is prepared again, too.
    `vocabulary` is the path of the vocabulary file. If `learn` is true, the vocabularies are `reused` or, if
    that is None, learned from the training split; otherwise, training has already begun with those in the
    file. Raises BadInputError if the corpus or the vocabulary cannot be read, if no training pair is left, or
    if the data cannot be written.
    """
    origin = reused.fingerprint if reused else _LEARNED
    contents = read_intact_contents(folder, vocabulary)
    if contents and contents.are_of(config) and (not learn or contents.origin == origin):
        return open_contents(contents, folder, vocabulary)
    fingerprint = corpus_fingerprint(config)
    corpus = load_corpus(config)
    train = _without_empty(corpus.train)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONTENTS).unlink(missing_ok=True)
        if learn:
            (reused or learn_vocabularies(train, config)).save(vocabulary)
        writer = _Writer(folder, load_vocabularies(vocabulary, config.direction), config)
        if empty := len(corpus.train) - len(train):
            writer.notes.append(
                f"dropped {empty:,} of {len(corpus.train):,} training pairs with an empty side"
            )
        writer.write_train(train)
        writer.write_evaluation_split("validation", corpus.validation)
        writer.write_evaluation_split("test", corpus.test)
        contents = writer.write_contents(vocabulary, fingerprint, origin if learn else _KEPT)
    except OSError as error:
        raise BadInputError(f"{folder}: cannot write the prepared data ({error.strerror})") from None
    return open_contents(contents, folder, vocabulary)


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


#: The data of one direction of translation: the vocabularies, the sources and the targets.
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
            opposite: Direction = "en-de" if self._config.direction == "de-en" else "de-en"
            directions.append((self._vocabularies.in_direction(opposite), targets, sources))
        drop = self._config.too_long == "drop"
        fits = self._write("train", directions, drop)
        if drop and not any(fits):
            raise BadInputError(
                f"no training pair is left: all {len(fits)} are longer than data.max_length "
                f"{self._config.max_length}; raise it, or set data.too_long=truncate"
            )

    def write_evaluation_split(self, name: str, text: ParallelText) -> None:
        """Write the evaluation split `name`, "validation" or "test", as ids, truncated, and as text."""
        sources, references = text.sides(self._config.direction)
        self._write(name, [(self._vocabularies, sources, references)], drop=False)
        self._write_json(f"{name}.json", {"sources": sources, "references": references})

    def write_contents(self, vocabulary: Path, corpus: str, origin: str) -> Contents:
        """Write and return the description of all files, which marks the data as complete."""
        contents = Contents(
            layout=LAYOUT,
            corpus=corpus,
            settings=settings_of(self._config),
            origin=origin,
            vocabulary=digest(vocabulary),
            dtype=self._dtype,
            notes=self.notes,
            files={name: digest(self._folder / name) for name in self._files},
        )
        atomic_write_text(self._folder / CONTENTS, json.dumps(contents.model_dump(), indent=1))
        return contents

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

    def _write_pairs(self, name: str, chunks: Iterable[list[IdPair]], dtype: str) -> None:
        ids, offsets = f"{name}.ids", f"{name}.offsets"
        write_pairs(chunks, self._folder / ids, self._folder / offsets, dtype)
        self._files += [ids, offsets]

    def _write_json(self, name: str, content: object) -> None:
        atomic_write_text(self._folder / name, json.dumps(content, ensure_ascii=False))
        self._files.append(name)
