"""The charts of lesson 08: targets, the loss against confidence, and calibration."""

import math
from collections.abc import Callable

import pandas as pd
import pytest
import torch

from course_lib.charts import (
    Picture,
    calibration_curves,
    loss_by_confidence,
    target_distributions,
)
from course_lib.transformer import smooth_targets

TextsOf = Callable[[Picture], list[str]]
WORDS = ["<pad>", "a", "dog", "runs", "."]


def _targets() -> torch.Tensor:
    return smooth_targets(torch.tensor([2, 3, 0]), 5, 0, 0.2)


def test_targets_say_words_probabilities_and_sums(texts_of: TextsOf) -> None:
    texts = texts_of(target_distributions(_targets(), ["dog", "runs", "<pad>"], WORDS))
    assert set(WORDS) <= set(texts)
    assert texts.count(".84") == 2
    assert texts.count(".04") == 8
    assert texts.count("1") - texts.count("0.5") >= 2  # two sums, and the end of the legend


def test_targets_are_told() -> None:
    told = str(target_distributions(_targets(), ["dog", "runs", "<pad>"], WORDS).description)
    assert "dog: sum 1; runs: sum 1; <pad>: sum 0." in told
    assert "The largest probability is 0.84, the smallest 0." in told


@pytest.mark.parametrize(
    ("labels", "vocabulary", "message"),
    [
        (["dog"], WORDS, "labels: expected 3 words"),
        (["dog", "runs", "<pad>"], WORDS[:4], "vocabulary: expected 5 words"),
    ],
)
def test_words_that_do_not_fit(labels: list[str], vocabulary: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        target_distributions(_targets(), labels, vocabulary)


def _losses() -> pd.DataFrame:
    rows = [(0.0, p, -math.log(p)) for p in (0.1, 0.5, 0.9, 0.99, 0.999)]
    rows += [(0.1, p, -0.9 * math.log(p) - 0.1 * math.log(1 - p)) for p in (0.1, 0.5, 0.9, 0.99, 0.999)]
    return pd.DataFrame(rows, columns=["smoothing", "confidence", "loss"])


def test_the_lowest_loss_is_marked_unless_it_is_the_last(texts_of: TextsOf) -> None:
    texts = texts_of(loss_by_confidence(_losses()))
    assert {"smoothing 0", "smoothing 0.1"} <= set(texts)
    assert texts.count("90%") == 2  # a tick, and the label of the dot
    assert texts.count("99.9%") == 1  # only a tick


def test_a_lowest_point_near_certainty_says_its_nines(texts_of: TextsOf) -> None:
    table = pd.DataFrame({"smoothing": 0.01, "confidence": [0.5, 0.991, 0.9999], "loss": [1.0, 0.1, 0.3]})
    assert "99.10%" in texts_of(loss_by_confidence(table))


def test_the_lowest_losses_are_told() -> None:
    told = str(loss_by_confidence(_losses()).description)
    assert "smoothing 0 at 99.9000%, where it is 0.001" in told
    assert "smoothing 0.1 at 90.0000%, where it is 0.325" in told


def _guesses() -> pd.DataFrame:
    sure = pd.DataFrame({"model": "sure", "confidence": 0.95, "right": [True, False] * 20})
    fair = pd.DataFrame({"model": "fair", "confidence": [0.5] * 40 + [0.7] * 5, "right": [True] * 45})
    return pd.concat([sure, fair], ignore_index=True)


def test_calibration_bins_the_guesses() -> None:
    data = calibration_curves(_guesses()).to_dict()["datasets"].values()
    points = next(rows for rows in data if rows and "predictions" in rows[0])
    kept = {(row["model"], round(row["confidence"], 2)): (row["share"], row["predictions"]) for row in points}
    assert kept == {("sure", 0.95): (0.5, 40), ("fair", 0.5): (1.0, 40)}  # a bin with 5 is left out


def test_certainty_belongs_to_the_last_bin() -> None:
    table = pd.DataFrame({"model": "m", "confidence": [1.0] * 15 + [0.91] * 15, "right": [True] * 30})
    data = calibration_curves(table).to_dict()["datasets"].values()
    points = next(rows for rows in data if rows and "predictions" in rows[0])
    assert [row["predictions"] for row in points] == [30]


def test_calibration_is_told(texts_of: TextsOf) -> None:
    chart = calibration_curves(_guesses())
    assert {"sure", "fair", "overconfident", "underconfident"} <= set(texts_of(chart))
    assert chart.description == (
        "How often is a model right when it is confident? sure: mean confidence 95%, correct 50%; "
        "fair: mean confidence 52%, correct 100%."
    )


def test_calibration_needs_a_bin_with_enough_predictions() -> None:
    with pytest.raises(ValueError, match="table: expected a bin with 20 or more predictions, got none"):
        calibration_curves(_guesses().head(10))
