"""The vocabulary of subwords, which both languages share (section 5.1 of the paper)."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import Direction

PAD, START, END, UNKNOWN = "<pad>", "<start>", "<end>", "<unknown>"
#: The special tokens of every vocabulary, in the order of their ids.
SPECIALS = (PAD, START, END, UNKNOWN)
#: The tag for the target language of each direction, for a model trained in both directions.
TAGS: dict[Direction, str] = {"de-en": "<to-english>", "en-de": "<to-german>"}


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary of byte-level subwords, and the conversion from text to ids and back.

    Bytes are the smallest symbols, so any text can be encoded, and decoding restores it exactly: no
    detokenizer is needed before scoring. `pad_id`, `start_id`, `end_id` and `unknown_id` are the first four
    ids. Text is never encoded as one of them, not even the text "<pad>".

    In a vocabulary for a model that is trained in both directions, source sentences start with a tag for the
    target language (Johnson et al. 2017, arXiv 1611.04558).
    """

    tokenizer: Tokenizer
    direction: Direction | None = None
    """The direction of translation, which determines the tag; None if there are no tags."""

    pad_id, start_id, end_id, unknown_id = range(4)

    def __post_init__(self) -> None:
        # Encode text such as "<pad>" as text. The JSON of a tokenizer doesn't contain this setting.
        self.tokenizer.encode_special_tokens = True

    @classmethod
    def learn(cls, sentences: Iterable[str], size: int, direction: Direction | None = None) -> "Vocabulary":
        """Learn a vocabulary from the sentences of the training split. The result is deterministic.

        `size` is the number of subwords, including special tokens; a small corpus may run out of pairs to
        merge, so there may be fewer. With `direction`, there are tags.
        """
        tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
        # The space before a word is part of it, and the first word of a sentence gets one too.
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[*SPECIALS, *(TAGS.values() if direction else ())],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(sentences, trainer)
        return cls(tokenizer, direction)

    @classmethod
    def load(cls, path: Path, direction: Direction = "de-en") -> "Vocabulary":
        """Load a vocabulary that `save` has written.

        `direction` only matters for a model trained in both directions: its file is the same for both, and
        `direction` selects the one to translate in. Raises BadInputError if the file cannot be read or
        doesn't contain a vocabulary.
        """
        try:
            text = path.read_text("utf-8")
        except OSError as error:
            raise BadInputError(f"{path}: cannot read the run's vocabulary ({error.strerror})") from None
        try:
            tokenizer = Tokenizer.from_str(text)
        except Exception:  # `tokenizers` raises a plain Exception for an invalid file.
            raise BadInputError(
                f"{path}: not a vocabulary written by a run. Restore the run's own file."
            ) from None
        return cls(tokenizer, None if tokenizer.token_to_id(TAGS[direction]) is None else direction)

    def save(self, path: Path) -> None:
        """Write the vocabulary to a JSON file, atomically.

        The direction of translation isn't saved; pass it to `load`.
        """
        atomic_write_text(path, self.tokenizer.to_str(pretty=True))

    def in_direction(self, direction: Direction) -> "Vocabulary":
        """Return the vocabulary for a direction, which only matters if there are tags."""
        return self if self.direction is None else replace(self, direction=direction)

    @property
    def fingerprint(self) -> str:
        """A hash of the subwords, which doesn't depend on the direction."""
        return hashlib.sha256(self.tokenizer.to_str().encode("utf-8")).hexdigest()

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Convert each target sentence to ids, without start and end tokens."""
        encodings = self.tokenizer.encode_batch(list(sentences), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def encode_source(self, sentences: Sequence[str]) -> list[list[int]]:
        """Convert each source sentence to ids: the tag, if there are tags, then the subwords.

        Empty sentences get no tag.
        """
        encoded = self.encode(sentences)
        if self.direction is None:
            return encoded
        tag_id = self.tokenizer.token_to_id(TAGS[self.direction])
        assert tag_id is not None, "the vocabulary was learned with the tags"
        return [[tag_id, *ids] if ids else [] for ids in encoded]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Convert each list of ids to text, without special tokens and tags."""
        texts = self.tokenizer.decode_batch([list(row) for row in ids], skip_special_tokens=True)
        return [text.removeprefix(" ") for text in texts]
