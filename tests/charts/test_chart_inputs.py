import numpy as np
import pytest
import torch

from course_lib.charts.inputs import as_words, from_tensor, mask_from_tensor


@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool],
)
def test_takes_every_dtype(dtype: torch.dtype) -> None:
    array = from_tensor(torch.tensor([[0, 1], [1, 0]]).to(dtype), "x", (2,))
    assert array.dtype == np.float64
    assert array.tolist() == [[0, 1], [1, 0]]


def test_leaves_gradients_behind_and_the_tensor_as_it_was() -> None:
    tensor = torch.ones(2, requires_grad=True) * 3
    array = from_tensor(tensor, "x", (1,))
    array[0] = 7
    assert tensor.tolist() == [3, 3]
    assert tensor.requires_grad


@pytest.mark.parametrize("values", [[[1, 2.5]], ((1, 2.5),), np.array([[1, 2.5]]), [torch.tensor([1, 2.5])]])
def test_takes_lists_tuples_arrays_and_lists_of_tensors(values: object) -> None:
    assert from_tensor(values, "x", (2,)).tolist() == [[1, 2.5]]


def test_keeps_what_is_no_number() -> None:
    array = from_tensor([float("nan"), float("inf"), -float("inf")], "x", (1,))
    assert np.isnan(array[0])
    assert array[1:].tolist() == [float("inf"), -float("inf")]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 2], "expected 2 axes"),
        (torch.zeros(1, 2, 3), r"got the shape \(1, 2, 3\)"),
        ([["a", "b"]], "expected real numbers"),
        (torch.zeros(2, 2, dtype=torch.complex64), "expected real numbers, got complex64"),
        ([[1, 2], [3]], "rows of equal length"),
        ([torch.zeros(2), torch.zeros(3)], "rows of equal length"),
        (torch.zeros(0, 3), "at least one number"),
        (None, "expected real numbers"),
    ],
)
def test_bad_numbers(values: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^weights: .*{message}"):
        from_tensor(values, "weights", (2,))  # type: ignore[arg-type]


def test_mask_stretches() -> None:
    mask = mask_from_tensor(torch.tensor([[True, False]]), (3, 2))
    assert mask.tolist() == [[True, False]] * 3


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(2, 2), "expected booleans"),
        ([[0, 1]], "expected booleans"),
        (torch.ones(3, 2, dtype=torch.bool), r"expected a shape that broadcasts to \(2, 2\), got \(3, 2\)"),
    ],
)
def test_bad_masks(mask: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mask_from_tensor(mask, (2, 2))  # type: ignore[arg-type]


def test_words() -> None:
    assert as_words(("a", "a"), 2, "keys") == ["a", "a"]
    with pytest.raises(ValueError, match=r"keys: expected 3 words, .* got 2"):
        as_words(["a", "b"], 3, "keys")
    with pytest.raises(ValueError, match=r"got one string. Split it first"):
        as_words("abc", 3, "keys")
