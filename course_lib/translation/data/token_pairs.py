"""Sentence pairs as ids in two flat arrays, memory-mapped so that all processes of a machine share them."""

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from course_lib.atomic_files import atomic_write

#: The ids of a source sentence and its translation, without start and end tokens.
IdPair = tuple[Sequence[int], Sequence[int]]
#: The data type of offsets in files, with a fixed byte order.
OFFSETS = "<i8"


class TokenPairs(Sequence[IdPair]):
    """Pairs of sentences. Each sentence is a list of ids without start and end tokens.

    One array holds the ids of all sentences: source, target, source, target, and so on. `offsets` holds the
    start of each sentence, followed by the end of the last one.
    """

    def __init__(self, ids: NDArray[np.unsignedinteger], offsets: NDArray[np.int64]) -> None:
        self._ids = ids
        self._offsets = offsets

    @classmethod
    def of(cls, pairs: Iterable[IdPair]) -> "TokenPairs":
        """Build the arrays in memory from pairs of lists of ids."""
        sentences = [sentence for pair in pairs for sentence in pair]
        ids = np.fromiter(chain.from_iterable(sentences), np.uint32)
        return cls(ids, np.cumsum([0, *map(len, sentences)], dtype=np.int64))

    @classmethod
    def mapped(cls, ids: Path, offsets: Path, dtype: str) -> "TokenPairs":
        """Memory-map the files written by `write_pairs`. `dtype` is the data type of the ids."""
        return cls(_mapped(ids, dtype), _mapped(offsets, OFFSETS))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens in each source and target, as an array of shape (pairs, 2)."""
        return np.diff(self._offsets).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self._offsets) // 2

    # Slices and negative indices are not supported, because the lab doesn't use them.
    def __getitem__(self, index: int) -> IdPair:  # type: ignore[override]
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} pairs")
        source, target, end = self._offsets[2 * index :][:3].tolist()
        return self._ids[source:target].tolist(), self._ids[target:end].tolist()

    def collate(
        self, batch: Sequence[int], pad_id: int, start_id: int, end_id: int, max_length: int
    ) -> tuple[Int[Tensor, "B S"], Int[Tensor, "B T"]]:
        """Collate the pairs at the indices `batch`, with the same result as lesson 10's `collate`.

        Sentences are truncated to `max_length` tokens, including the start and end tokens. This method uses
        array operations, which are many times as fast as a loop over the sentences, so that a GPU doesn't
        have to wait.
        """
        indices = np.asarray(batch, np.int64)

        def side(sentences: NDArray[np.int64]) -> Tensor:
            first = self._offsets[sentences]
            lengths = np.minimum(self._offsets[sentences + 1] - first, max_length - 2)
            matrix = np.full((len(sentences), lengths.max() + 2), pad_id, np.int64)
            position = np.arange(matrix.shape[1] - 2)
            real = position < lengths[:, None]
            matrix[:, 0] = start_id
            matrix[:, 1:-1][real] = self._ids[(first[:, None] + position)[real]]
            matrix[np.arange(len(sentences)), lengths + 1] = end_id
            return torch.from_numpy(matrix)

        return side(2 * indices), side(2 * indices + 1)


def id_type(vocab_size: int) -> str:
    """Return the data type for the ids of a vocabulary: 16 bits if they suffice, otherwise 32 bits."""
    return "<u2" if vocab_size <= 2**16 else "<u4"


def write_pairs(chunks: Iterable[Sequence[IdPair]], ids: Path, offsets: Path, dtype: str) -> None:
    """Write pairs, chunk by chunk, to the files for `TokenPairs.mapped`. The ids get the type `dtype`."""
    ends = [np.zeros(1, OFFSETS)]
    with atomic_write(ids) as file:
        for chunk in chunks:
            sentences = [sentence for pair in chunk for sentence in pair]
            lengths = np.fromiter(map(len, sentences), OFFSETS, len(sentences))
            ends.append(ends[-1][-1:] + np.cumsum(lengths, dtype=OFFSETS))
            file.write(np.fromiter(chain.from_iterable(sentences), dtype, int(lengths.sum())).tobytes())
    with atomic_write(offsets) as file:
        file.write(np.concatenate(ends).tobytes())


def _mapped(path: Path, dtype: str) -> NDArray[Any]:
    if path.stat().st_size == 0:  # An empty file cannot be mapped.
        return np.empty(0, dtype)
    # Return a plain array, because slicing an np.memmap is slow.
    return np.asarray(np.memmap(path, dtype, mode="r"))
