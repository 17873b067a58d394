"""Byte-pair encoding with the `tokenizers` library (section 5.1 of the paper)."""

import hashlib
from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

PAD, START, END, UNKNOWN = "<pad>", "<start>", "<end>", "<unknown>"
#: The special tokens of every vocabulary, in the order of their ids.
SPECIALS = (PAD, START, END, UNKNOWN)
#: Target-language tags, for a model trained in both directions.
TO_ENGLISH, TO_GERMAN = "<to-english>", "<to-german>"


class Subwords:
    """A vocabulary of byte-level subwords, and the conversion from text to ids and back.

    Bytes are the smallest symbols, so any text can be encoded, and decoding restores it exactly: no
    detokenizer is needed before scoring. `pad_id`, `start_id`, `end_id` and `unknown_id` are the first four
    ids. Text is never encoded as one of them, not even the text "<pad>".
    """

    pad_id, start_id, end_id, unknown_id = range(4)

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # Encode text such as "<pad>" as text. The JSON of a tokenizer doesn't contain this setting.
        self._tokenizer.encode_special_tokens = True

    @classmethod
    def learn(cls, sentences: Iterable[str], size: int, tags: Sequence[str] = ()) -> "Subwords":
        """Learn a vocabulary from the sentences of the training split. The result is deterministic.

        `size` is the number of subwords, including special tokens; a small corpus may run out of pairs to
        merge, so there may be fewer. `tags` are additional special tokens.
        """
        tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
        # The space before a word is part of it, and the first word of a sentence gets one too.
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[*SPECIALS, *tags],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(sentences, trainer)
        return cls(tokenizer)

    @classmethod
    def from_json(cls, text: str) -> "Subwords":
        """Load a vocabulary serialised by `to_json`. For any other text, `tokenizers` raises an Exception."""
        return cls(Tokenizer.from_str(text))

    def to_json(self) -> str:
        """Return the vocabulary as JSON."""
        return self._tokenizer.to_str(pretty=True)

    @property
    def fingerprint(self) -> str:
        """A hash of the vocabulary."""
        return hashlib.sha256(self._tokenizer.to_str().encode("utf-8")).hexdigest()

    def id_of(self, special: str) -> int | None:
        """Return the id of a special token, or None if there is no such token."""
        number: int | None = self._tokenizer.token_to_id(special)
        return number

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Convert each sentence to ids, without start and end tokens."""
        encodings = self._tokenizer.encode_batch(list(sentences), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Convert each list of ids to text, without special tokens."""
        texts = self._tokenizer.decode_batch([list(row) for row in ids], skip_special_tokens=True)
        return [text.removeprefix(" ") for text in texts]


class TaggedSubwords(Subwords):
    """A vocabulary of subwords for source sentences, which start with a tag for the target language.

    See Johnson et al. 2017, arXiv 1611.04558.
    """

    def __init__(self, subwords: Subwords, tag: str) -> None:
        super().__init__(subwords._tokenizer)
        number = subwords.id_of(tag)
        assert number is not None, "the subwords were learned with the tags"
        self.tag, self.tag_id = tag, number

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Convert each sentence to ids: the tag, then the subwords. Empty sentences get no tag."""
        return [[self.tag_id, *ids] if ids else [] for ids in super().encode(sentences)]
