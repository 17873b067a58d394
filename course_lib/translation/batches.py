"""Batches with little padding, and the order in which an epoch takes them: lesson 10, section 5.1."""

import random
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

#: The ids of a source sentence and of its translation, without start and end.
IdPair = tuple[Sequence[int], Sequence[int]]


def token_batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Put sentences of like length together: lists of indices, each index once.

    Section 5.1, "batched together by approximate sequence length". A batch, padded to its longest sentence,
    has at most `max_tokens` places: longest times number of sentences. Short before long; equal lengths keep
    their order. Raises ValueError for a sentence that is longer than `max_tokens` all by itself.
    """
    batches: list[list[int]] = []
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if lengths[index] > max_tokens:
            raise ValueError(
                f"sentence {index} has {lengths[index]} tokens, and a batch may have {max_tokens}: "
                "shorten it, leave it out or allow more"
            )
        # The newest sentence is the longest so far.
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
    """Make one batch of sentence pairs, given as ids: a matrix for the sources and one for the targets.

    Every sentence stands between `start_id` and `end_id`. It is cut before it gets its end, so that with both
    it has at most `max_length` tokens. Each side is padded at the right to its own longest sentence. Raises
    ValueError where `max_length` leaves no room for start and end.
    """
    if max_length < 2:
        raise ValueError(f"max_length must be at least 2, for start and end, and is {max_length}")

    def side(sentences: list[Sequence[int]]) -> Tensor:
        rows = [torch.tensor([start_id, *ids[: max_length - 2], end_id]) for ids in sentences]
        return pad_sequence(rows, batch_first=True, padding_value=pad_id)

    return side([source for source, _ in pairs]), side([target for _, target in pairs])


def epoch_plan(
    lengths: Sequence[tuple[int, int]], max_tokens: int, batches_per_update: int, seed: int, epoch: int
) -> list[list[list[int]]]:
    """Plan an epoch: a list of updates, each a list of batches, each a list of indices.

    `lengths` holds both sides of each pair; the longer side counts against `max_tokens`. The plan depends on
    the seed and the epoch alone, so any number of processes, and a run that starts again, follow the same
    one. Pairs of one length are shuffled before they meet in batches, and the batches are shuffled too. The
    last update may have fewer batches.
    """
    rng = random.Random(f"{seed}, epoch {epoch}")
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches = token_batches([max(lengths[index]) for index in order], max_tokens)
    rng.shuffle(batches)
    chosen = [[order[place] for place in batch] for batch in batches]
    return [chosen[first : first + batches_per_update] for first in range(0, len(chosen), batches_per_update)]
