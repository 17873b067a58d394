"""`token_batches` and `collate`, as the exercises' contract specifies them."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.transformer.batching import collate, token_batches

PAD, START, END = 0, 1, 2
LENGTHS = st.lists(st.integers(1, 40), max_size=80)
SENTENCES = st.lists(st.lists(st.integers(3, 99), max_size=9), min_size=1, max_size=6)


@given(LENGTHS, st.integers(40, 200))
def test_batches_hold_each_index_once_within_the_budget(lengths: list[int], max_tokens: int) -> None:
    batches = token_batches(lengths, max_tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(max(lengths[index] for index in batch) * len(batch) <= max_tokens for batch in batches)


@given(LENGTHS, st.integers(40, 200))
def test_batches_are_full_and_sorted(lengths: list[int], max_tokens: int) -> None:
    batches = token_batches(lengths, max_tokens)
    flat = [lengths[index] for batch in batches for index in batch]
    assert flat == sorted(lengths)
    for batch, following in pairwise(batches):
        assert lengths[following[0]] * (len(batch) + 1) > max_tokens, "the next sentence would have fitted"


def test_an_example_by_hand() -> None:
    assert token_batches([5, 2, 9, 2, 4], 10) == [[1, 3], [4, 0], [2]]
    assert token_batches([], 10) == []


def test_a_sentence_over_the_budget_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="sentence 1 has 11 tokens, but a batch may have at most 10"):
        token_batches([3, 11], 10)


def test_collate_frames_cuts_and_pads_each_side() -> None:
    source, target = collate([([5, 6, 7, 8], [9]), ([5], [6, 7])], PAD, START, END, max_length=5)
    assert source.tolist() == [[START, 5, 6, 7, END], [START, 5, END, PAD, PAD]]
    assert target.tolist() == [[START, 9, END, PAD], [START, 6, 7, END]]
    assert source.dtype == target.dtype == torch.int64


@given(SENTENCES, SENTENCES, st.integers(2, 12))
def test_collate_keeps_every_sentence(
    sources: list[list[int]], targets: list[list[int]], max_length: int
) -> None:
    pairs = list(zip(sources, targets, strict=False))
    for side, matrix in enumerate(collate(pairs, PAD, START, END, max_length)):
        lengths = [min(len(pair[side]) + 2, max_length) for pair in pairs]
        assert matrix.shape == (len(pairs), max(lengths))
        for row, length, pair in zip(matrix.tolist(), lengths, pairs, strict=True):
            assert row == [START, *pair[side][: length - 2], END] + [PAD] * (max(lengths) - length)


def test_collate_needs_room_for_start_and_end() -> None:
    with pytest.raises(ValueError, match="max_length must be at least 2, for start and end, got 1"):
        collate([([5], [6])], PAD, START, END, max_length=1)
