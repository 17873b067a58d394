"""Lesson 00: the differences of all pairs, compared with loops over the indices and with NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.transformer import causal_mask, pairwise_differences

from .samples import leaves, numbers, seeds, unchanged


def test_differences_by_hand() -> None:
    assert pairwise_differences(torch.tensor([1, 4, 9])).tolist() == [[0, -3, -8], [3, 0, -5], [8, 5, 0]]


@given(seeds, st.lists(st.integers(1, 3), max_size=3), st.integers(1, 5))
def test_each_element_is_the_difference_of_its_two(seed: int, front: list[int], length: int) -> None:
    torch.manual_seed(seed)
    x = numbers(*front, length)
    found = pairwise_differences(x)
    assert found.shape == (*front, length, length)
    for i in range(length):
        for j in range(length):
            assert torch.equal(found[..., i, j], x[..., i] - x[..., j])


def test_as_numpy_has_it() -> None:
    x = numbers(2, 3, 4)
    expected = np.subtract.outer(x[1, 2].numpy(), x[1, 2].numpy())
    assert np.array_equal(pairwise_differences(x)[1, 2].numpy(), expected)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float16, torch.float32, torch.float64])
def test_the_dtype_is_kept(dtype: torch.dtype) -> None:
    assert pairwise_differences(torch.ones(2, 3, dtype=dtype)).dtype == dtype


def test_the_input_is_not_written_into_and_gets_a_gradient() -> None:
    (x,) = leaves((2, 3))
    with unchanged(x):
        table = pairwise_differences(x)
    table[:, 0].sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[2.0, -1.0, -1.0]] * 2


def test_it_is_on_the_device_of_its_input(device: str) -> None:
    assert pairwise_differences(torch.ones(3, device=device)).device.type == device


def test_places_that_are_not_behind_make_the_causal_mask() -> None:
    assert torch.equal(pairwise_differences(torch.arange(5)) >= 0, causal_mask(5)[0])
