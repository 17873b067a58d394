"""Pairs read back from files of ids equal the pairs that were written."""

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from course_lib.transformer.batching import collate
from course_lib.translation.data.token_pairs import TokenPairs, id_type, write_pairs

IDS = st.lists(st.integers(0, 2**16 - 1), max_size=6)
PAIRS = st.lists(st.tuples(IDS, IDS), max_size=12)


def stored(folder: Path, pairs: list[tuple[list[int], list[int]]], chunk: int, dtype: str) -> TokenPairs:
    chunks = [pairs[first : first + chunk] for first in range(0, len(pairs), chunk)]
    write_pairs(chunks, folder / "ids", folder / "offsets", dtype)
    return TokenPairs.mapped(folder / "ids", folder / "offsets", dtype)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(PAIRS, st.integers(1, 5), st.sampled_from(["<u2", "<u4"]))
def test_pairs_come_back(
    tmp_path: Path, pairs: list[tuple[list[int], list[int]]], chunk: int, dtype: str
) -> None:
    lengths = [[len(source), len(target)] for source, target in pairs]
    for got in (stored(tmp_path, pairs, chunk, dtype), TokenPairs.of(pairs)):
        assert list(got) == pairs
        assert len(got) == len(pairs)
        assert got.lengths.tolist() == lengths
        assert got.lengths.shape == (len(pairs), 2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.data(), st.lists(st.tuples(IDS, IDS), min_size=1, max_size=12), st.integers(2, 9))
def test_a_batch_is_that_of_collate(
    tmp_path: Path, data: st.DataObject, pairs: list[tuple[list[int], list[int]]], max_length: int
) -> None:
    batch = data.draw(st.lists(st.sampled_from(range(len(pairs))), min_size=1, max_size=5))
    expected = collate([pairs[index] for index in batch], 0, 1, 2, max_length)
    for some in (TokenPairs.of(pairs), stored(tmp_path, pairs, 3, "<u2")):
        for matrix, right in zip(some.collate(batch, 0, 1, 2, max_length), expected, strict=True):
            assert torch.equal(matrix, right)
            assert matrix.dtype == right.dtype


def test_an_index_out_of_range_is_refused(tmp_path: Path) -> None:
    pairs = [([1], [2, 3]), ([4, 5], []), ([], [6])]
    got = stored(tmp_path, pairs, 2, "<u2")
    assert [got[index] for index in (0, 2, 1)] == [pairs[index] for index in (0, 2, 1)]
    for index in (3, -1):
        with pytest.raises(IndexError):
            got[index]


def test_ids_take_as_little_room_as_they_can(tmp_path: Path) -> None:
    assert [id_type(size) for size in (300, 2**16, 2**16 + 1)] == ["<u2", "<u2", "<u4"]
    stored(tmp_path, [([1, 2], [3])], 1, "<u2")
    assert (tmp_path / "ids").read_bytes() == b"\1\0\2\0\3\0"
