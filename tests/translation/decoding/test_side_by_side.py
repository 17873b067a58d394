"""Batches decoded in parallel threads give the same results as batches decoded one after another."""

import threading
from collections.abc import Iterator

import pytest
import torch

from course_lib.translation.decoding.batch_decoder import parallel_map, split_batches


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_as_many_are_at_work_as_there_are_threads_and_results_keep_their_order() -> None:
    together = threading.Barrier(3, timeout=30)

    def work(item: int) -> tuple[int, int]:
        together.wait()  # raises an error if fewer than three run at the same time
        return item, torch.get_num_threads()

    assert parallel_map(work, range(6)) == [(item, 1) for item in range(6)]


@pytest.mark.usefixtures("three_threads")
def test_the_last_are_begun_first() -> None:
    together = threading.Barrier(3, timeout=30)
    begun: list[int] = []

    def work(item: int) -> None:
        begun.append(item)
        together.wait()

    parallel_map(work, range(9))
    assert [set(begun[first : first + 3]) for first in (0, 3, 6)] == [{6, 7, 8}, {3, 4, 5}, {0, 1, 2}]


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize(("items", "each"), [(1, 3), (2, 1), (0, 0)])
def test_few_items_share_the_threads(items: int, each: int) -> None:
    assert parallel_map(lambda _: torch.get_num_threads(), range(items)) == [each] * items


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize(
    ("sizes", "beam", "expected"),
    [
        ([600], 1, [128] * 4 + [88]),  # not in nine parts, which would be smaller than 128
        ([1200, 1500], 1, [240] * 5 + [300] * 5),
        ([90, 90], 5, [26, 26, 26, 12] * 2),
        ([100] * 9, 1, [100] * 9),
        ([], 1, []),
    ],
)
def test_few_large_batches_are_split_for_the_threads(
    sizes: list[int], beam: int, expected: list[int]
) -> None:
    numbers = iter(range(sum(sizes)))
    batches = [[next(numbers) for _ in range(size)] for size in sizes]
    parts = split_batches(batches, beam)
    assert [len(part) for part in parts] == expected
    assert [index for part in parts for index in part] == list(range(sum(sizes)))


def test_one_thread_gets_whole_batches() -> None:
    assert torch.get_num_threads() == 1
    assert split_batches([list(range(5000))], 1) == [list(range(5000))]


def test_many_threads_are_shared_by_four() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(11)
    try:
        assert parallel_map(lambda _: torch.get_num_threads(), range(6)) == [2] * 6
    finally:
        torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_the_number_of_threads_stays_even_where_the_work_fails() -> None:
    def work(item: int) -> int:
        if item == 2:
            raise ValueError("item 2")
        return item

    with pytest.raises(ValueError, match="item 2"):
        parallel_map(work, range(4))
    assert torch.get_num_threads() == 3
    found: list[int] = []
    later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert found == [3]
