"""The vocabularies of source and target, which are either separate or shared."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import DataConfig, Direction
from course_lib.translation.data.corpora import ParallelText
from course_lib.translation.data.subwords import TO_ENGLISH, TO_GERMAN, BidirectionalSubwords, Subwords


@dataclass(frozen=True)
class SeparateVocabularies:
    """Two vocabularies, one for the source and one for the target."""

    source: Subwords
    target: Subwords
    pad_id, start_id, end_id, unknown_id = range(4)
    direction: ClassVar[Direction | None] = None
    """Always None, because separate vocabularies serve only one direction."""

    def in_direction(self, direction: Direction) -> "SeparateVocabularies":
        """Return these vocabularies, which have only one direction."""
        return self

    @property
    def fingerprint(self) -> str:
        """A hash of both vocabularies."""
        return hashlib.sha256(self._to_json().encode("utf-8")).hexdigest()

    def save(self, path: Path) -> None:
        """Write the vocabularies to one JSON file, atomically."""
        atomic_write_text(path, self._to_json())

    def _to_json(self) -> str:
        source, target = json.loads(self.source.to_json()), json.loads(self.target.to_json())
        content = {"kind": "separate-bpe", "source": source, "target": target}
        return json.dumps(content, ensure_ascii=False, indent=1)


#: The vocabularies of source and target. `Subwords` are one vocabulary for both sides. Padding, start, end
#: and unknown have the same ids on both sides.
Vocabularies: TypeAlias = Subwords | SeparateVocabularies


def learn_vocabularies(train: ParallelText, config: DataConfig) -> Vocabularies:
    """Learn the vocabularies for a config. `train` must contain only the training split."""
    size, both = config.vocab_size, [*train.german, *train.english]
    if config.both_directions:
        subwords = Subwords.learn(both, size, tags=[TO_ENGLISH, TO_GERMAN])
        return BidirectionalSubwords(subwords, config.direction)
    if config.tokenizer == "joint-bpe":
        return Subwords.learn(both, size)
    source, target = train.sides(config.direction)
    return SeparateVocabularies(Subwords.learn(source, size), Subwords.learn(target, size))


def load_vocabularies(path: Path, direction: Direction = "de-en") -> Vocabularies:
    """Load vocabularies from a file that their `save` method wrote.

    `direction` only matters for a model trained in both directions: its file is the same for both, and
    `direction` selects the one to translate in. Raises BadInputError if the file cannot be read or doesn't
    contain vocabularies.
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise BadInputError(f"{path}: cannot read the run's vocabulary ({error.strerror})") from None
    try:
        content = json.loads(text)
        if "kind" not in content:
            subwords = Subwords.from_json(text)
            if subwords.id_of(TO_ENGLISH) is None:
                return subwords
            return BidirectionalSubwords(subwords, direction)
        source, target = (Subwords.from_json(json.dumps(content[side])) for side in ("source", "target"))
        return SeparateVocabularies(source, target)
    except Exception:  # `tokenizers` raises a plain Exception for an invalid file.
        raise BadInputError(
            f"{path}: not a vocabulary written by a run. Restore the run's own file."
        ) from None
