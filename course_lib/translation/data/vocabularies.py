"""The vocabularies of source and target, which contain the same subwords."""

from dataclasses import dataclass, replace
from pathlib import Path

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import DataConfig, Direction
from course_lib.translation.data.corpora import ParallelText
from course_lib.translation.data.subwords import TO_ENGLISH, TO_GERMAN, Subwords, TaggedSubwords


@dataclass(frozen=True)
class Vocabularies:
    """The vocabularies of source and target: the same subwords, learned from both languages.

    If they were learned for a model that is trained in both directions, source sentences start with a tag for
    the target language.
    """

    target: Subwords
    """The vocabulary of target sentences."""
    direction: Direction | None = None
    """The selected direction, which determines the tag; None if there are no tags."""

    pad_id, start_id, end_id, unknown_id = range(4)

    @property
    def source(self) -> Subwords:
        """The vocabulary of source sentences, with the tag for the target language if there are tags."""
        if self.direction is None:
            return self.target
        return TaggedSubwords(self.target, TO_ENGLISH if self.direction == "de-en" else TO_GERMAN)

    def in_direction(self, direction: Direction) -> "Vocabularies":
        """Return the vocabularies for a direction. They only depend on it if there are tags."""
        return self if self.direction is None else replace(self, direction=direction)

    @property
    def fingerprint(self) -> str:
        """A hash of the subwords, which doesn't depend on the direction."""
        return self.target.fingerprint

    def save(self, path: Path) -> None:
        """Write the subwords to a JSON file, atomically."""
        atomic_write_text(path, self.target.to_json())


def learn_vocabularies(train: ParallelText, config: DataConfig) -> Vocabularies:
    """Learn the vocabularies for a config. `train` must contain only the training split."""
    sentences = [*train.german, *train.english]
    if not config.both_directions:
        return Vocabularies(Subwords.learn(sentences, config.vocab_size))
    subwords = Subwords.learn(sentences, config.vocab_size, tags=[TO_ENGLISH, TO_GERMAN])
    return Vocabularies(subwords, config.direction)


def load_vocabularies(path: Path, direction: Direction = "de-en") -> Vocabularies:
    """Load vocabularies from a file that their `save` method wrote.

    `direction` only matters for a model trained in both directions: its file is the same for both, and
    `direction` selects the one to translate in. Raises BadInputError if the file cannot be read or doesn't
    contain a vocabulary.
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise BadInputError(f"{path}: cannot read the run's vocabulary ({error.strerror})") from None
    try:
        subwords = Subwords.from_json(text)
    except Exception:  # `tokenizers` raises a plain Exception for an invalid file.
        raise BadInputError(
            f"{path}: not a vocabulary written by a run. Restore the run's own file."
        ) from None
    return Vocabularies(subwords, None if subwords.id_of(TO_ENGLISH) is None else direction)
