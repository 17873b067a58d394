"""Subwords: byte-pair encoding by `tokenizers`, section 5.1 of the paper."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError

PAD, START, END, UNKNOWN = "<pad>", "<start>", "<end>", "<unknown>"
#: Into which language: for a model that translates both ways.
TO_ENGLISH, TO_GERMAN = "<to-english>", "<to-german>"


class Subwords:
    """A vocabulary of byte-level subwords, and the way from text to ids and back.

    Bytes are the smallest symbols, so every text can be written, and decoding gives it back letter by letter:
    no detokeniser stands between the translation and its score. `pad_id`, `start_id`, `end_id` and
    `unknown_id` are the first four ids; text never becomes one of them, not even text that spells "<pad>".

    Learnt from both languages, they are the vocabulary of both: `source` and `target` are the same.
    """

    pad_id, start_id, end_id, unknown_id = range(4)
    #: Words that are special symbols, and never split.
    UNSPLIT = frozenset({TO_ENGLISH, TO_GERMAN})

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # Text that spells a special symbol is text. This setting isn't saved with the tokenizer.
        self._tokenizer.encode_special_tokens = True

    @classmethod
    def learn(cls, sentences: Iterable[str], size: int, also: Sequence[str] = ()) -> "Subwords":
        """Learn the merges from the sentences of the training split.

        The same sentences give the same subwords. A small corpus may run out of pairs to merge: then there
        are fewer than `size`. `also` are further special symbols, which text never becomes either.
        """
        tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
        # The space before a word belongs to it, and the first word of a sentence gets one too.
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[PAD, START, END, UNKNOWN, *also],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(sentences, trainer)
        return cls(tokenizer)

    @classmethod
    def load(cls, path: Path) -> "Subwords":
        """Read what `save` wrote. Raises BadInputError where that isn't possible."""
        try:
            return cls.from_text(path.read_text("utf-8"))
        except OSError as error:
            raise BadInputError(
                f"{path}: expected the run's vocabulary, but it cannot be read ({error.strerror})"
            ) from None
        except Exception:  # The library raises no class of its own.
            raise BadInputError(
                f"{path}: expected a vocabulary written by a run, came something else"
            ) from None

    def save(self, path: Path) -> None:
        """Write everything as one JSON file, whole or not at all."""
        atomic_write_text(path, self.as_text())

    @classmethod
    def from_text(cls, text: str) -> "Subwords":
        """Read what `as_text` wrote. Raises whatever the library does where it is something else."""
        return cls(Tokenizer.from_str(text))

    def as_text(self) -> str:
        """Write everything as JSON."""
        return self._tokenizer.to_str(pretty=True)

    @property
    def source(self) -> "Subwords":
        """The vocabulary of German: this one."""
        return self

    @property
    def target(self) -> "Subwords":
        """The vocabulary of English: this one too."""
        return self

    @property
    def fingerprint(self) -> str:
        """A hash that two vocabularies share only where they are the same."""
        return hashlib.sha256(self._tokenizer.to_str().encode("utf-8")).hexdigest()

    def id_of(self, special: str) -> int | None:
        """Give the id of a special symbol, None where there is no such symbol."""
        number: int | None = self._tokenizer.token_to_id(special)
        return number

    def split_words(self, sentences: Sequence[str]) -> list[list[str]]:
        """Give each sentence its words, inside which merges happen: the space before a word belongs to it."""
        split = self._tokenizer.pre_tokenizer.pre_tokenize_str
        return [[word for word, _ in split(sentence)] for sentence in sentences]

    def merge_ranks(self) -> dict[tuple[str, str], int]:
        """Give the pairs of symbols that are merged, each with its place in the order of learning."""
        merges = json.loads(self._tokenizer.to_str())["model"]["merges"]
        return {(left, right): rank for rank, (left, right) in enumerate(merges)}

    def numbers(self) -> dict[str, int]:
        """Give the id of every subword and special symbol."""
        return dict(self._tokenizer.get_vocab(with_added_tokens=True))

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Give each sentence its ids, without start and end."""
        encodings = self._tokenizer.encode_batch(list(sentences), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Give each list of ids its text; start, end and padding leave no trace."""
        texts = self._tokenizer.decode_batch([list(row) for row in ids], skip_special_tokens=True)
        return [text.removeprefix(" ") for text in texts]
