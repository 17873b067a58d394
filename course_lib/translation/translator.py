"""A trained run as a translator: text in, text out, and who looked at whom on the way."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Translation:
    """One translation of a sentence, out of the n best."""

    text: str
    score: float
    """The log-probability over the length penalty: the best translation has the highest."""
    log_probability: float
    """In nats, the end symbol counted."""
    tokens: list[str]
    """What the text is made of; the last is the end symbol, where the model wrote it."""


@dataclass(frozen=True)
class AttentionMaps:
    """All attention weights of one sentence and its translation, after the softmax; rows sum to one.

    N layers, H heads, S tokens of the source, T tokens of the target. Row i belongs to query i.
    """

    source_tokens: list[str]
    """The S tokens that the encoder reads, start and end included."""
    target_tokens: list[str]
    """The T tokens that the decoder reads, the start included."""
    predicted_tokens: list[str]
    """The T tokens that are to follow: at row i the decoder reads target token i to write predicted token i."""
    encoder_self: Float[Tensor, "N H S S"]
    decoder_self: Float[Tensor, "N H T T"]
    cross: Float[Tensor, "N H T S"]


class Translator:
    """A model with its vocabulary, ready to translate. `load_translator` makes one of a run."""

    @overload
    def translate(
        self, sentences: Sequence[str], beam: int | None = None, alpha: float | None = None
    ) -> list[str]: ...

    @overload
    def translate(
        self, sentences: Sequence[str], beam: int | None = None, alpha: float | None = None, *, n_best: int
    ) -> list[list[Translation]]: ...

    def translate(
        self,
        sentences: Sequence[str],
        beam: int | None = None,
        alpha: float | None = None,
        *,
        n_best: int | None = None,
    ) -> list[str] | list[list[Translation]]:
        """Translate German sentences: a text for each, in their order, or with `n_best` the best few.

        `beam` and `alpha`, where they are not given, are those of the run; a beam of 1 is greedy decoding.
        """
        raise NotImplementedError

    def attention(self, german: str, english: str | None = None) -> AttentionMaps:
        """Show who looks at whom while this sentence is translated; into `english`, where it is given."""
        raise NotImplementedError


def load_translator(
    run_folder: str | Path,
    checkpoint: str = "last",
    device: str | torch.device = "cpu",
) -> Translator:
    """Read a translator from the folder of a run.

    `checkpoint` is last, best, averaged or a file's path. Raises BadInputError where there is none.
    """
    raise NotImplementedError
