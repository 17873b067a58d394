"""The attention charts: the heat map of the weights, and the effect of a mask."""

import math
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
import torch

from course_lib.charts import Picture, as_svg, attention_heatmap, mask_effect
from course_lib.charts.marks import hundredths, short

TextsOf = Callable[[Picture], list[str]]

WORDS = ["the", "cat", "saw", "the"]
CAUSAL = torch.ones(4, 4, dtype=torch.bool).tril()


def _masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1).nan_to_num(0.0)


def _scores() -> torch.Tensor:
    return torch.randn(4, 4, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (0.125, "0.12"),
        (-1.5, "-1.50"),
        (12.34, "12.3"),
        (123.4, "123"),
        (1e9, "1e+9"),
        (-2.5e-7, "-2e-7"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
    ],
)
def test_short_numbers(value: float, text: str) -> None:
    assert short(value) == text


def test_a_cell_tells_its_row_column_and_value() -> None:
    assert 'aria-label="a, c: weight 0.75"' in as_svg(attention_heatmap([[0.25, 0.75]], ["a"], ["b", "c"]))


def test_exact_zero_differs_from_very_little() -> None:
    assert (hundredths(0.0), hundredths(1e-9)) == ("0", "0.00")


def test_cells_say_their_weights_and_words_repeat(texts_of: TextsOf) -> None:
    weights = torch.softmax(_scores(), dim=-1)
    texts = Counter(texts_of(attention_heatmap(weights, WORDS, WORDS)))
    assert texts["the"] == 4  # twice as a query, twice as a key
    for text, count in Counter(f"{value:.2f}" for value in weights.flatten().tolist()).items():
        assert texts[text] == count


def test_many_words_leave_no_room_for_numbers(texts_of: TextsOf) -> None:
    words = [f"w{number}" for number in range(30)]
    texts = texts_of(attention_heatmap(torch.full((30, 30), 1 / 30), words, words))
    assert set(words) <= set(texts)
    assert "0.03" not in texts


def test_masked_cells_are_crossed_out(texts_of: TextsOf) -> None:
    weights = _masked_softmax(_scores(), CAUSAL)
    texts = texts_of(attention_heatmap(weights, WORDS, WORDS, mask=CAUSAL))
    assert texts.count("×") == 6
    assert any("masked" in text for text in texts)
    assert not any("!" in text for text in texts)


def test_weight_under_the_mask_is_shown_not_hidden(texts_of: TextsOf) -> None:
    weights = torch.full((4, 4), 0.25)
    texts = texts_of(attention_heatmap(weights, WORDS, WORDS, mask=CAUSAL))
    assert texts.count("!.25") == 6
    assert any(text.startswith("Orange cells") for text in texts)


def test_cells_without_a_number_are_named(texts_of: TextsOf) -> None:
    weights = torch.eye(4)
    weights[0, 1], weights[2, 0] = math.nan, math.inf
    texts = texts_of(attention_heatmap(weights, WORDS, WORDS))
    assert {"NaN", "∞"} <= set(texts)
    assert any(text.startswith("Black cells") for text in texts)


@pytest.mark.parametrize(
    ("weights", "claim"),
    [
        (torch.full((4, 4), 0.25), "its weights sum to 1."),
        (torch.eye(4) * torch.tensor([1, 1, 0, 1]), "or to 0 if every key is masked"),
        (torch.full((4, 4), 0.3), "Not every row sums to 1"),
        (torch.full((4, 4), math.nan), "Not every row sums to 1"),
    ],
)
def test_claims_of_the_rows_only_what_holds(weights: torch.Tensor, claim: str, texts_of: TextsOf) -> None:
    texts = texts_of(attention_heatmap(weights, WORDS, WORDS))
    assert sum(claim in text for text in texts) == 1


def test_heads_are_side_by_side_with_one_legend(texts_of: TextsOf) -> None:
    heads = torch.softmax(torch.randn(6, 4, 4), dim=-1)
    names = [f"head {number}" for number in range(6)]
    chart = attention_heatmap(heads, WORDS, WORDS, mask=CAUSAL, panels=names)
    texts = texts_of(chart)
    assert set(names) <= set(texts)
    assert texts.count("weight") == 1
    assert all(name in str(chart.description) for name in names)


def test_panels_without_names_are_numbered_from_zero_like_tensors() -> None:
    chart = attention_heatmap(torch.eye(4).expand(2, 4, 4), WORDS, WORDS)
    assert "Panel 0: " in str(chart.description)
    assert "Panel 1: " in str(chart.description)


def test_four_wide_panels_are_drawn_in_two_rows(texts_of: TextsOf) -> None:
    words = list("abcdefghij")
    chart = attention_heatmap(torch.full((4, 10, 10), 0.1), words, words)
    assert chart.columns == 2
    assert chart.concat[0].width == 260
    assert attention_heatmap(torch.full((4, 4, 4), 0.25), WORDS, WORDS).columns == 4


@pytest.mark.parametrize(
    ("queries", "panels", "weights", "message"),
    [
        (WORDS[:3], None, torch.eye(4), "queries: expected 4 words"),
        (WORDS, ["one"], torch.eye(4), "panels: expected none"),
        (WORDS, ["one"], torch.eye(4).expand(2, 4, 4), "panels: expected 2 words"),
        (WORDS, None, torch.zeros(1, 1, 4, 4), "weights: expected 2 or 3 axes"),
    ],
)
def test_bad_heat_maps(
    queries: Sequence[str], panels: Sequence[str] | None, weights: torch.Tensor, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        attention_heatmap(weights, queries, WORDS, panels=panels)


def test_mask_effect_shows_scores_mask_weights_and_sums(texts_of: TextsOf) -> None:
    scores, mask = _scores(), CAUSAL.clone()
    mask[2] = False
    texts = texts_of(mask_effect(scores, mask, _masked_softmax(scores, mask)))
    assert {"1. scores", "2. mask", "3. weights", "row sums"} <= set(texts)
    for value in scores.flatten().tolist():
        assert short(value) in texts
    assert texts.count("✓") == 7
    assert texts.count("×") == 2 * 9
    assert texts.count("1.00") >= 3
    assert texts.count("0  (all masked)") == 1


@pytest.mark.parametrize(
    ("fill", "says"),
    [(-1e9, "! 1.00, all masked"), (-math.inf, "! NaN, all masked")],
)
def test_mask_effect_finds_the_classic_mistakes_of_an_empty_row(
    fill: float, says: str, texts_of: TextsOf
) -> None:
    mask = CAUSAL.clone()
    mask[0] = False
    weights = torch.softmax(_scores().masked_fill(~mask, fill), dim=-1)
    texts = texts_of(mask_effect(_scores(), mask, weights))
    assert texts.count(says) == 1
    assert any(text.startswith("Orange cells") for text in texts)


def test_mask_effect_finds_rows_that_were_masked_after_the_softmax(texts_of: TextsOf) -> None:
    texts = texts_of(mask_effect(_scores(), CAUSAL, torch.softmax(_scores(), dim=-1) * CAUSAL))
    assert sum(text.endswith(", not 1") for text in texts) == 3


def test_mask_effect_explains_colours_where_numbers_find_no_room(texts_of: TextsOf) -> None:
    scores = torch.randn(9, 9)
    mask = torch.ones(1, 9, dtype=torch.bool)
    texts = texts_of(mask_effect(scores, mask, torch.softmax(scores, dim=-1)))
    assert any(text.startswith("Scores: brown is below zero") for text in texts)


def test_bad_mask_effects() -> None:
    with pytest.raises(
        ValueError, match=r"weights: expected the shape of the scores, \(4, 4\), got \(4, 3\)"
    ):
        mask_effect(_scores(), CAUSAL, torch.zeros(4, 3))
    with pytest.raises(ValueError, match="mask: expected booleans"):
        mask_effect(_scores(), CAUSAL.float(), torch.zeros(4, 4))
    with pytest.raises(ValueError, match="scores: expected 2 axes"):
        mask_effect(torch.zeros(2, 4, 4), CAUSAL, torch.zeros(4, 4))
