"""The prepared dataset of a run: the vocabulary, and all splits as ids in files shared by all processes.

`data.preparation` writes these files. This module verifies and opens them.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import DataConfig, MayChangeMarker, yaml_value
from course_lib.translation.data.corpora import corpus_fingerprint, load_corpus
from course_lib.translation.data.token_pairs import TokenPairs
from course_lib.translation.data.vocabulary import Vocabulary

#: The version of the file layout. Data in a different layout must be prepared again.
LAYOUT = 5
#: The file of the vocabulary in a folder written by `course prepare`.
VOCABULARY = "vocabulary.json"
#: The file that describes the others. It is written last, so it marks the data as complete.
CONTENTS = "contents.json"


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
    """A run's vocabulary and its training, validation and test splits."""

    vocabulary: Vocabulary
    train: TokenPairs
    validation: EvaluationSplit
    test: EvaluationSplit
    notes: list[str]
    """Messages for the user about dropped, truncated and suspicious pairs."""
    fingerprint: str
    """A hash of the data files, which hold the ids and the texts. It doesn't cover the vocabulary."""


class Contents(BaseModel):
    """The contents of contents.json, which describes the other files of prepared data."""

    model_config = ConfigDict(frozen=True)

    layout: int
    corpus: str = ""
    """The result of `corpus_fingerprint` when the data was prepared. Layouts before 5 don't contain it."""
    settings: dict[str, Any]
    """The result of `settings_of` for the config that the data was prepared with."""
    origin: str
    """The origin of the vocabulary: "learned", "kept", or the fingerprint of the one that was reused."""
    vocabulary: str
    """The checksum of the vocabulary file, which may be in another folder."""
    dtype: str
    """The data type of the token ids."""
    notes: list[str]
    files: dict[str, str]
    """The checksum of each other file, by its name."""

    def are_of(self, config: DataConfig) -> bool:
        """Return whether the data was prepared from the config's corpus and with its settings.

        If the corpus is missing, as on a node that has only a copy of the prepared data, it isn't compared.
        """
        if (self.layout, self.settings) != (LAYOUT, settings_of(config)):
            return False
        try:
            return self.corpus == corpus_fingerprint(config)
        except BadInputError:
            return True

    def are_intact(self, folder: Path, vocabulary_file: Path) -> bool:
        """Return whether all files exist and have their checksums."""
        checksums = {vocabulary_file: self.vocabulary}
        checksums |= {folder / name: checksum for name, checksum in self.files.items()}
        return all(path.is_file() and digest(path) == checksum for path, checksum in checksums.items())


def open_run_data(folder: Path, vocabulary_file: Path) -> PreparedData:
    """Open the data that a run has prepared in `folder`.

    Raises BadInputError if the data or the vocabulary file is missing or damaged.
    """
    contents = read_intact_contents(folder, vocabulary_file)
    if contents is None:
        raise BadInputError(
            f"{folder}: the prepared data of the run is missing or incomplete. Resume the run, which "
            "prepares it again. If it runs on several machines, check that all see the same run_folder."
        )
    return open_contents(contents, folder, vocabulary_file)


def open_shared_data(config: DataConfig, folder: Path) -> PreparedData:
    """Open the data that `course prepare` wrote into `folder`, which several runs can share.

    Raises BadInputError if the data doesn't fit the config, if it is missing or damaged, or if it was
    prepared by a different version of the course.
    """
    origin = f"data.prepared: {folder}"
    contents = _read_contents(folder)
    if contents is None:
        raise BadInputError(
            f"{origin} holds no prepared data, or only part of it. Run `course prepare` first."
        )
    if contents.layout != LAYOUT:
        raise BadInputError(
            f"{origin} was prepared by a different version of the course (layout {contents.layout}, this "
            f"version needs {LAYOUT}). Run `course prepare` again, into an empty folder."
        )
    require_same_settings(config, contents, origin)
    if not contents.are_of(config):
        raise BadInputError(f"{origin} was prepared from a different corpus. Run `course prepare` again.")
    if not contents.are_intact(folder, folder / VOCABULARY):
        raise BadInputError(
            f"{origin} is damaged or incomplete. Run `course prepare` again, or copy it again."
        )
    return open_contents(contents, folder, folder / VOCABULARY)


def validation_split(
    config: DataConfig, folder: Path, vocabulary_file: Path, vocabulary: Vocabulary
) -> tuple[list[Sequence[int]], list[str]]:
    """Return the validation split of a run: the sources as ids, truncated, and the references.

    The split is read from the prepared data of the run or, if `data.prepared` is set, from that folder. If
    that folder no longer exists, as after training from a copy on a node's own disk, the split is read from
    the corpus.
    Raises BadInputError if neither can be read.
    """
    if config.prepared is None:
        split = open_run_data(folder, vocabulary_file).validation
        return split.source_ids, split.references
    if Path(config.prepared).exists():
        split = open_shared_data(config, Path(config.prepared)).validation
        return split.source_ids, split.references
    try:
        sources, references = load_corpus(config).validation.sides(config.direction)
    except BadInputError as error:
        raise BadInputError(
            f"data.prepared: {config.prepared} no longer exists, and the corpus cannot be read: {error}"
        ) from None
    longest = config.max_length - 2  # Leave room for the start and end tokens.
    return [ids[:longest] for ids in vocabulary.encode_source(sources)], references


def open_contents(contents: Contents, folder: Path, vocabulary_file: Path) -> PreparedData:
    """Open the files that `contents` describes, without verifying their checksums."""

    def pairs(name: str) -> TokenPairs:
        return TokenPairs.mapped(folder / f"{name}.ids", folder / f"{name}.offsets", contents.dtype)

    def evaluation_split(name: str) -> EvaluationSplit:
        text = json.loads((folder / f"{name}.json").read_text("utf-8"))
        return EvaluationSplit(text["sources"], text["references"], pairs(name))

    return PreparedData(
        vocabulary=Vocabulary.load(vocabulary_file, contents.settings["direction"]),
        train=pairs("train"),
        validation=evaluation_split("validation"),
        test=evaluation_split("test"),
        notes=contents.notes,
        fingerprint=hashlib.sha256(json.dumps(contents.files, sort_keys=True).encode()).hexdigest(),
    )


def read_intact_contents(folder: Path, vocabulary_file: Path) -> Contents | None:
    """Read contents.json and verify all checksums. Return None if any file is missing or damaged."""
    contents = _read_contents(folder)
    return contents if contents and contents.are_intact(folder, vocabulary_file) else None


def require_same_settings(config: DataConfig, contents: Contents, origin: str) -> None:
    """Raise BadInputError if data was prepared with different settings. The message begins with `origin`."""
    prepared = contents.settings
    differences = [
        f"data.{name} is {yaml_value(prepared.get(name))} there and {yaml_value(ours)} here"
        for name, ours in settings_of(config).items()
        if prepared.get(name) != ours
    ]
    if differences:
        raise BadInputError(
            f"{origin} was prepared with different settings: {'; '.join(differences)}. Use the same "
            "settings, or another folder."
        )


def settings_of(config: DataConfig) -> dict[str, Any]:
    """Return the settings that influence the ids."""
    fields = DataConfig.model_fields.items()
    return {name: getattr(config, name) for name, field in fields if MayChangeMarker not in field.metadata}


def digest(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_contents(folder: Path) -> Contents | None:
    try:
        return Contents.model_validate_json((folder / CONTENTS).read_bytes())
    except (OSError, ValueError):
        return None
