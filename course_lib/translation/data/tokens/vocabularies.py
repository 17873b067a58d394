"""What text becomes before a model sees it: a vocabulary for the source, and one for the target."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import DataConfig
from course_lib.translation.data.corpora.parallel_text import ParallelText
from course_lib.translation.data.tokens.directed import DirectedSubwords, Towards
from course_lib.translation.data.tokens.subwords import TO_ENGLISH, TO_GERMAN, Subwords
from course_lib.translation.data.tokens.words import Words


@runtime_checkable
class Vocabulary(Protocol):
    """The tokens of one language, and the way from text to ids and back."""

    pad_id: int
    start_id: int
    end_id: int
    unknown_id: int

    def __len__(self) -> int: ...

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Give each sentence its ids, without start and end."""

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Give each list of ids its text; start, end and padding leave no trace."""

    def as_text(self) -> str:
        """Write everything as JSON."""


@runtime_checkable
class Vocabularies(Protocol):
    """The vocabularies of both sides. Padding, start and end have the same ids in both.

    `Subwords` is one that both sides share, `DirectedSubwords` too; `SeparateVocabularies` are two.
    """

    pad_id: int
    start_id: int
    end_id: int
    unknown_id: int

    @property
    def source(self) -> Vocabulary:
        """The vocabulary of German."""

    @property
    def target(self) -> Vocabulary:
        """The vocabulary of English."""

    @property
    def fingerprint(self) -> str:
        """A hash that two have in common only where they are the same."""

    def save(self, path: Path) -> None:
        """Write everything as one JSON file, whole or not at all."""


@dataclass(frozen=True)
class SeparateVocabularies:
    """Two vocabularies of one kind, of whatever sizes."""

    source: Vocabulary
    target: Vocabulary
    pad_id, start_id, end_id, unknown_id = range(4)

    @property
    def fingerprint(self) -> str:
        """A hash that two have in common only where they are the same."""
        return hashlib.sha256(self._as_text().encode("utf-8")).hexdigest()

    def save(self, path: Path) -> None:
        """Write everything as one JSON file, whole or not at all."""
        atomic_write_text(path, self._as_text())

    def _as_text(self) -> str:
        (kind,) = (name for name, side in _SIDES.items() if isinstance(self.source, side))
        source, target = json.loads(self.source.as_text()), json.loads(self.target.as_text())
        return json.dumps({"kind": kind, "source": source, "target": target}, ensure_ascii=False, indent=1)


#: What the sides of separate vocabularies are, by the name that their file has for it.
_SIDES: dict[str, type[Subwords] | type[Words]] = {"separate-bpe": Subwords, "words": Words}


def learn_vocabularies(train: ParallelText, config: DataConfig) -> Vocabularies:
    """Learn the vocabularies that the config asks for. Give it the training split, and nothing else."""
    both = [*train.german, *train.english]
    if config.both_directions:
        return DirectedSubwords(Subwords.learn(both, config.vocab_size, also=[TO_ENGLISH, TO_GERMAN]))
    if config.tokenizer == "joint-bpe":
        return Subwords.learn(both, config.vocab_size)
    if config.tokenizer == "separate-bpe":
        return SeparateVocabularies(
            Subwords.learn(train.german, config.vocab_size),
            Subwords.learn(train.english, config.vocab_size),
        )
    return SeparateVocabularies(
        Words.learn(train.german, "de", config.min_count), Words.learn(train.english, "en", config.min_count)
    )


def subwords_of(vocabularies: Vocabularies) -> tuple[Subwords, Subwords]:
    """Give the subwords of source and target. Raises ValueError where there are words."""
    source = vocabularies.source
    sides = source.subwords if isinstance(source, Towards) else source, vocabularies.target
    if not (isinstance(sides[0], Subwords) and isinstance(sides[1], Subwords)):
        raise ValueError("these vocabularies hold words, and no subwords")
    return sides[0], sides[1]


def load_vocabularies(path: Path) -> Vocabularies:
    """Read what `save` wrote. Raises BadInputError where that isn't possible."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise BadInputError(
            f"{path}: expected the run's vocabulary, but it cannot be read ({error.strerror})"
        ) from None
    try:
        content = json.loads(text)
        if "kind" not in content:
            subwords = Subwords.from_text(text)
            return subwords if subwords.id_of(TO_ENGLISH) is None else DirectedSubwords(subwords)
        side = _SIDES[content["kind"]]
        source, target = (side.from_text(json.dumps(content[name])) for name in ("source", "target"))
        return SeparateVocabularies(source, target)
    except Exception:  # Neither JSON nor tokenizers says in one way that a file is not theirs.
        raise BadInputError(f"{path}: expected a vocabulary written by a run, came something else") from None
