"""The charts of lesson 08: targets and calibration."""

from collections.abc import Callable

import pandas as pd
import pytest
import torch

from course_lib.charts import Picture, calibration_curves, target_distributions
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
