"""`top_candidates` finds the same candidates as a full sort."""

import pytest
import torch

from course_lib.translation.decoding.beam_search import BLOCK, top_candidates


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("width", [5, BLOCK, 6 * BLOCK, 6 * BLOCK + 1, 10 * BLOCK - 1])
def test_they_are_what_a_sort_finds(width: int, count: int) -> None:
    # All numbers differ, so the result is unique. Some widths leave a remainder after the last whole block.
    torch.manual_seed(width)
    scores = torch.stack([torch.randperm(width) for _ in range(50)]).double()
    values, places = top_candidates(scores, count)
    expected = scores.sort(dim=1, descending=True)
    assert torch.equal(values, expected.values[:, :count])
    assert torch.equal(places, expected.indices[:, :count])


def test_impossible_ones_come_last() -> None:
    scores = torch.full((2, 8 * BLOCK), -torch.inf)
    scores[0, 300], scores[1, 7] = 1.0, 2.0
    values, places = top_candidates(scores, 3)
    assert values[:, 0].tolist() == [1.0, 2.0]
    assert places[:, 0].tolist() == [300, 7]
    assert values[:, 1:].eq(-torch.inf).all()


def test_of_equal_numbers_any_will_do_but_none_twice() -> None:
    values, places = top_candidates(torch.zeros(3, 9 * BLOCK), 4)
    assert values.eq(0).all()
    assert [len(set(row)) for row in places.tolist()] == [4] * 3
