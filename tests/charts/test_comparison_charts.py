import math
from collections.abc import Callable

import pytest
import torch

from course_lib.charts import Picture, found_beside_expected

TextsOf = Callable[[Picture], list[str]]


def _values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def _compared(found: torch.Tensor, expected: torch.Tensor) -> Picture:
    differs = None
    if found.shape == expected.shape:
        differs = ~torch.isclose(found, expected, equal_nan=True)
    return found_beside_expected(found, expected, differs)


def test_counts_and_marks_what_differs(texts_of: TextsOf) -> None:
    expected = _values(3, 4)
    found = expected.clone()
    found[1, 2] += 0.5
    texts = texts_of(_compared(found, expected))
    assert "1 of 12 numbers differs." in texts
    assert {"your result", "expected", "where they differ", "row", "column"} <= set(texts)
    assert texts.count("+0.50") == 1
    assert texts.count("=") == 11


def test_truth_values_are_explained(texts_of: TextsOf) -> None:
    expected = torch.ones(3, 3, dtype=torch.bool).tril()
    texts = texts_of(found_beside_expected(~expected, expected, ~expected != expected))
    assert {"9 of 9 truth values differ.", "1 means True, and 0 means False."} <= set(texts)
    assert "1 means True, and 0 means False." not in texts_of(_compared(_values(3, 3), _values(3, 3) + 1))


def test_no_numbers_are_marked_and_nan_equals_nan(texts_of: TextsOf) -> None:
    expected = torch.tensor([[math.nan, 1.0, 2.0, 3.0]])
    found = torch.tensor([[math.nan, math.nan, math.inf, -math.inf]])
    texts = texts_of(_compared(found, expected))
    assert "3 of 4 numbers differ." in texts
    assert texts.count("NaN") == 3
    assert {"∞", "-∞"} <= set(texts)
    assert texts.count("≠") == 3
    assert any(text.startswith("Black cells") for text in texts)


def test_different_shapes_are_side_by_side(texts_of: TextsOf) -> None:
    texts = texts_of(_compared(_values(3, 4), _values(4, 3)))
    assert "The shapes differ: got (3, 4), expected (4, 3)." in texts
    assert "where they differ" not in texts
    assert not {"=", "≠"} & set(texts)


@pytest.mark.parametrize("shape", [(1, 5), (1, 12), (16, 16), (1, 1)])
def test_shapes_that_fit(shape: tuple[int, ...], texts_of: TextsOf) -> None:
    texts = texts_of(_compared(_values(*shape), _values(*shape) + 1))
    assert not any(text.startswith("Shown:") for text in texts)


def test_the_first_difference_of_a_large_result_is_shown(texts_of: TextsOf) -> None:
    expected = _values(100, 40)
    found = expected.clone()
    found[70, 33] += 1
    texts = texts_of(_compared(found, expected))
    assert "Shown: rows 62 to 77 of 100, columns 24 to 39 of 40." in texts
    assert texts.count("≠") == 1


def test_one_wild_value_does_not_drown_the_rest(texts_of: TextsOf) -> None:
    expected = torch.tensor([[1.0, -2.0], [0.5, 0.0]])
    found = expected.clone()
    found[0, 0] = 1e9
    texts = texts_of(_compared(found, expected))
    assert "The colours end at 4; larger magnitudes have the last colour." in texts
    assert "1e+9" in texts


def test_of_several_matrices_the_first_that_differs_is_shown(texts_of: TextsOf) -> None:
    expected = _values(2, 3, 2, 2)
    found = expected.clone()
    found[1, 2] += 0.5
    texts = texts_of(_compared(found, expected))
    assert {"4 of 24 numbers differ.", "Shown: the matrix at [1, 2]."} <= set(texts)
    assert texts.count("+0.50") == 4


def test_other_numbers_of_axes_are_told_with_the_whole_shapes(texts_of: TextsOf) -> None:
    texts = texts_of(_compared(_values(2, 5), _values(2, 1, 5)))
    assert {"The shapes differ: got (2, 5), expected (2, 1, 5).", "Shown: the first matrix of each."} <= set(
        texts
    )


def test_the_caller_decides_what_differs(texts_of: TextsOf) -> None:
    expected = torch.zeros(2, 2)
    texts = texts_of(
        found_beside_expected(expected + 1e-4, expected, torch.tensor([[True, False], [False, False]]))
    )
    assert "1 of 4 numbers differs." in texts
    assert texts.count("+1e-4") == 1


def test_description_tells_the_first_differences() -> None:
    expected = torch.zeros(2, 3)
    found = expected.clone()
    found[1, 2] = 0.25
    chart = _compared(found, expected)
    assert "row 1, column 2: got 0.25, expected 0" in str(chart.description)


@pytest.mark.parametrize(
    ("found", "expected", "message"),
    [
        (torch.zeros(2, 0), torch.zeros(2, 2), "found: expected at least one number"),
        (torch.zeros(2), torch.zeros(2, 2), "found: expected 2 or"),
        ("text", torch.zeros(2, 2), "found: expected real numbers"),
    ],
)
def test_bad_comparisons(found: object, expected: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        found_beside_expected(found, expected, None)  # type: ignore[arg-type]
