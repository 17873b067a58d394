"""The charts of lesson 00: aligned shapes and broadcast tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch

from course_lib.charts import Picture, aligned_shapes, broadcast_tables

TextsOf = Callable[[Picture], list[str]]


def test_an_axis_of_one_and_a_missing_one_say_how_they_stretch(texts_of: TextsOf) -> None:
    chart = aligned_shapes({"scores": (2, 8, 5, 6), "mask": (8, 1, 6)})
    texts = texts_of(chart)
    assert {"scores", "mask", "result", "axis -4", "axis -1", "1 → 5", "+ → 2"} <= set(texts)
    assert texts.count("8") == 3
    assert not any(text.startswith("!") for text in texts)
    assert "result (2, 8, 5, 6)" in str(chart.description)


def test_lengths_that_do_not_fit_are_marked(texts_of: TextsOf) -> None:
    chart = aligned_shapes({"a": (2, 3), "b": (3, 2), "c": (1, 1)})
    texts = texts_of(chart)
    assert [text for text in texts if text.startswith("!")] == ["! 2", "! 3", "! 3", "! 2", "!", "!"]
    assert any("torch raises an error" in text for text in texts)
    assert "they do not broadcast" in str(chart.description)


@pytest.mark.parametrize("shapes", [{(3, 1): 0, (4,): 0}, {(2, 3): 0, (3,): 0}, {(1, 1): 0, (1,): 0}])
def test_the_result_is_that_of_torch(shapes: Mapping[tuple[int, ...], int]) -> None:
    one, other = shapes
    whole = tuple(torch.broadcast_shapes(one, other))
    assert f"result {whole}" in str(aligned_shapes({"one": one, "other": other}).description)


@pytest.mark.parametrize("shapes", [{"a": (2, 3)}, {"a": (2, 3), "b": ()}])
def test_bad_shapes(shapes: Mapping[str, Sequence[int]]) -> None:
    with pytest.raises(ValueError, match="shapes: expected two or more shapes"):
        aligned_shapes(shapes)


def test_copies_are_in_brackets(texts_of: TextsOf) -> None:
    chart = broadcast_tables([[1], [2]], [7, 8, 9], [[7, 8, 9], [14, 16, 18]], names=("a", "× b", "= c"))
    texts = texts_of(chart)
    assert {"a  (2, 1)", "× b  (3,)", "= c  (2, 3)"} <= set(texts)
    assert texts.count("(1)") == texts.count("(2)") == 2
    assert texts.count("(7)") == texts.count("(8)") == texts.count("(9)") == 1
    assert {"14", "16", "18"} <= set(texts)
    assert "a (2, 1) and × b (3,) give = c (2, 3)" in str(chart.description)


def test_equal_shapes_have_no_copies(texts_of: TextsOf) -> None:
    texts = texts_of(broadcast_tables([1.0, 2.0], [3.0, 4.0], [4.0, 6.0], names=("a", "b", "c")))
    assert {"a  (2,)", "4", "6"} <= set(texts)
    assert not any(text.startswith("(") and text != "" and text[1].isdigit() for text in texts)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (([1, 2], [1, 2, 3], [1, 2]), r"expected shapes that broadcast, got \(2,\) and \(3,\)"),
        (([[1], [2]], [1, 2], [1, 2]), r"result: expected the shape \(2, 2\)"),
        (([[[1]]], [1, 2], [1, 2]), "left: expected 1 or 2 axes"),
    ],
)
def test_bad_tables(tables: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        broadcast_tables(*tables)
