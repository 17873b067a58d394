"""The charts of heads: the features of each head, what heads cost, and an overview of all heads."""

from collections.abc import Callable

import pytest
import torch

from course_lib.charts import Picture, features_in_heads, heads_overview
from course_lib.transformer import split_heads

TextsOf = Callable[[Picture], list[str]]
WORDS = ["a", "dog", "saw", "me"]
NUMBERS = torch.arange(24.0).view(1, 4, 6)


def test_every_cell_says_its_word_and_feature(texts_of: TextsOf) -> None:
    texts = texts_of(features_in_heads({"split": split_heads(NUMBERS, 3)[0]}, WORDS))
    assert {f"{word} {feature}" for word in WORDS for feature in range(6)} <= set(texts)
    assert {"split", "head 0", "head 1", "head 2"} <= set(texts)


def test_a_right_split_leaves_every_number_in_its_words_row() -> None:
    told = str(features_in_heads({"split": split_heads(NUMBERS, 3)[0]}, WORDS).description)
    assert "split, 3 heads: 0 of 24 in the row of another word" in told


def test_a_reshape_is_found_out() -> None:
    cuts = {"split": split_heads(NUMBERS, 3)[0], "reshape": NUMBERS.reshape(3, 4, 2)}
    picture = features_in_heads(cuts, WORDS)
    assert "reshape, 3 heads: 16 of 24 in the row of another word" in str(picture.description)
    frames = [layer for layer in picture.to_dict()["datasets"].values() if layer and "framed" in layer[0]]
    assert sum(cell["framed"] for frame in frames for cell in frame) == 16


def test_one_head_is_all_features(texts_of: TextsOf) -> None:
    assert "all features" in texts_of(features_in_heads({"x": NUMBERS}, WORDS))


@pytest.mark.parametrize(
    ("cuts", "words", "message"),
    [
        ({"x": torch.zeros(1, 4, 6)}, WORDS, r"each number from 0 to 23 exactly once.*torch.arange"),
        ({"x": NUMBERS[0]}, WORDS, r"expected 3 axes, got the shape \(4, 6\)"),
        ({"x": NUMBERS}, WORDS[:3], "expected 4 words"),
        ({"x": torch.arange(7).view(1, 7, 1)}, list("abcdefg"), "expected at most 6"),
    ],
)
def test_features_that_cannot_be_drawn(cuts: dict[str, torch.Tensor], words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        features_in_heads(cuts, words)


def test_the_overview_has_every_weight_of_every_head() -> None:
    weights = torch.softmax(torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0)), dim=-1)
    chart = heads_overview(weights, ["a", "b", "c", "d"], ["v", "w", "x", "y", "z"])
    (rows,) = chart.to_dict()["datasets"].values()
    assert len(rows) == weights.numel()
    last = rows[-1]
    assert (last["layer"], last["head"], last["query"], last["key"]) == (2, 3, "d", "z")
    assert last["weight"] == pytest.approx(weights[-1, -1, -1, -1].item(), abs=1e-4)
    assert "layer 2, head 3" in str(chart.description)
