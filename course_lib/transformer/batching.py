"""Batches of sentence pairs with little padding: section 5.1 of "Attention Is All You Need"."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


def token_batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Group sentences of similar length into batches, and return each batch as a list of indices.

    As in section 5.1, sentences are "batched together by approximate sequence length". Padded to its longest
    sentence, a batch has at most `max_tokens` positions: the length of the longest sentence times the number
    of sentences. Every index occurs exactly once; without sentences, there are no batches. It is enough to
    fill batches one after the other with the sentences in order of length. Another method may need at most
    one batch more, and at most 10 percent plus `max_tokens` more positions. The order of the batches is
    arbitrary. A sentence longer than `max_tokens` raises ValueError with its index and its length, or is a
    batch of its own.
    """
    batches: list[list[int]] = []
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if lengths[index] > max_tokens:
            raise ValueError(
                f"sentence {index} has {lengths[index]} tokens, but a batch may have at most {max_tokens}: "
                "shorten it, leave it out, or raise max_tokens"
            )
        # The sentences are sorted, so this one is the longest so far and determines the batch's width.
        if batch and lengths[index] * (len(batch) + 1) > max_tokens:
            batches.append(batch)
            batch = []
        batch.append(index)
    if batch:
        batches.append(batch)
    return batches


def collate(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    pad_id: int,
    start_id: int,
    end_id: int,
    max_length: int,
) -> tuple[Int[Tensor, "B S"], Int[Tensor, "B T"]]:
    """Convert sentence pairs, given as token ids, to a matrix of sources and a matrix of targets.

    Every sentence is put between `start_id` and `end_id`. It is truncated first, so that it has at most
    `max_length` tokens including both. Each side is padded on the right to its own longest sentence. Raises
    ValueError if `max_length` is below 2, which leaves no room for the start and end tokens; the message
    contains `max_length`.
    """
    if max_length < 2:
        raise ValueError(f"max_length must be at least 2, for start and end, got {max_length}")

    def padded_matrix(sentences: list[Sequence[int]]) -> Tensor:
        rows = [torch.tensor([start_id, *ids[: max_length - 2], end_id]) for ids in sentences]
        return pad_sequence(rows, batch_first=True, padding_value=pad_id)

    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    return padded_matrix(sources), padded_matrix(targets)
