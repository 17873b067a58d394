"""The charts of lesson 04: masks side by side, and the leak probe."""

from collections.abc import Callable

import pytest
import torch

from course_lib.charts import Picture, leak_probe, mask_panels

TextsOf = Callable[[Picture], list[str]]

WORDS = ["a", "dog", "sleeps", "<pad>"]
PADDING = torch.tensor([[True, True, True, False]])
CAUSAL = torch.ones(1, 4, 4, dtype=torch.bool).tril()


def test_each_mask_has_a_panel_and_stretches(texts_of: TextsOf) -> None:
    texts = texts_of(mask_panels({"padding": PADDING, "causal": CAUSAL, "both": PADDING & CAUSAL}, WORDS))
    assert {"padding", "causal", "both"} <= set(texts)
    assert texts.count("✓") == 12 + 10 + 9
    assert texts.count("×") == 4 + 6 + 7
    assert texts.count("dog") == 1 + 3  # a row in the first panel, and a column in each panel
    assert any("Allowed pairs: padding 12 of 16; causal 10 of 16; both 9 of 16." in text for text in texts)


def test_the_description_counts_the_keys_of_each_query() -> None:
    chart = mask_panels({"causal": CAUSAL}, WORDS)
    assert "under causal: a 1, dog 2, sleeps 3, <pad> 4." in str(chart.description)


def test_bad_masks() -> None:
    with pytest.raises(ValueError, match="mask: expected a shape that broadcasts"):
        mask_panels({"causal": CAUSAL}, WORDS[:3])
    with pytest.raises(ValueError, match="mask: expected booleans"):
        mask_panels({"causal": CAUSAL.float()}, WORDS)


def test_only_outputs_before_the_change_are_leaks(texts_of: TextsOf) -> None:
    chart = leak_probe({"right": [0, 0, 1.5, 0.5], "ahead": [0, 0.25, 1.5, 0.5]}, WORDS, 2)
    texts = texts_of(chart)
    assert "▼ sleeps" in texts
    assert [text for text in texts if text.startswith("!")] == ["! 0.25"]
    assert texts.count("0") == 3
    assert texts.count("1.50") == 2
    assert "Changing 'sleeps' moves earlier outputs under 1 of 2 masks" in texts
    assert "right: 0 earlier outputs moved; ahead: 1 earlier output moved" in str(chart.description)


def test_no_leak_is_said_so(texts_of: TextsOf) -> None:
    texts = texts_of(leak_probe({"right": [0, 0, 1.5, 0.5]}, WORDS, 2))
    assert "Changing 'sleeps' moves no earlier output: no mask leaks" in texts
    assert not any(text.startswith("!") for text in texts)


def test_a_small_leak_does_not_look_like_none(texts_of: TextsOf) -> None:
    texts = texts_of(leak_probe({"ahead": [0.0003, 0, 1.5, 0.5]}, WORDS, 2))
    assert "! 0.0003" in texts


def test_many_words_leave_room_for_the_sign_alone(texts_of: TextsOf) -> None:
    texts = texts_of(leak_probe({"none": torch.ones(40)}, [f"w{n}" for n in range(40)], 30))
    assert texts.count("!") == 30


def test_distances_that_are_no_numbers_are_leaks_too(texts_of: TextsOf) -> None:
    texts = texts_of(leak_probe({"none": [float("nan"), 0, 1, 1]}, WORDS, 2))
    assert "! NaN" in texts


@pytest.mark.parametrize(
    ("moved", "words", "changed", "message"),
    [
        ({"right": [0, 0]}, WORDS, 1, "words: expected 2 words"),
        ({"right": [0, 0, 0, 0]}, WORDS, 4, "changed: expected a position from 0 to 3"),
        ({"right": [[0, 0, 0, 0]]}, WORDS, 1, "expected 1 axes"),
    ],
)
def test_bad_probes(moved: dict[str, list[float]], words: list[str], changed: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        leak_probe(moved, words, changed)
