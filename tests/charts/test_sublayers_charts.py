"""The charts of lesson 03: layer normalisation, named lines, and what a layer costs."""

import json
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest
import torch

from course_lib.charts import Picture, layer_costs, named_lines, normalisation_effect

TextsOf = Callable[[Picture], list[str]]

PARAMETERS = {"network": 60, "attention": 30, "norm": 10}


def _lines(**lines: list[float]) -> pd.DataFrame:
    rows = [(name, x, y) for name, heights in lines.items() for x, y in enumerate(heights)]
    return pd.DataFrame(rows, columns=["line", "x", "y"])


def _drawn(table: pd.DataFrame, **options: Any) -> Picture:
    return named_lines(table, across="steps", up="loss", title="How the loss goes down", **options)


def _work() -> pd.DataFrame:
    rows = [(length, part, count) for length in (1, 4) for part, count in (("network", 3), ("mean", length))]
    return pd.DataFrame(rows, columns=["length", "part", "multiplications"])


@pytest.mark.parametrize(("height", "low", "high"), [(0.0, -0.05, 1.05), (4.0, -0.2, 4.2)])
def test_the_axis_of_a_constant_begins_near_zero(height: float, low: float, high: float) -> None:
    drawn = _drawn(_lines(a=[height, height])).to_dict()
    assert f'"domain": [{low}, {high}]' in json.dumps(drawn)


def test_norm_writes_mean_and_spread_of_each_row(texts_of: TextsOf) -> None:
    before = torch.tensor([[1.0, 3.0], [5.0, 5.0]], dtype=torch.bfloat16)
    after = torch.tensor([[-1.0, 1.0], [0.0, -0.0]])
    chart = normalisation_effect(before, after, ["a", "b's"])
    texts = texts_of(chart)
    assert {"before", "after", "a", "b's", "2.00 ± 1.00", "5.00 ± 0.00", "0.00 ± 1.00", "0.00 ± 0.00"} <= set(
        texts
    )
    assert "a: 2.00 ± 1.00 before, 0.00 ± 1.00 after; b's: 5.00 ± 0.00 before" in str(chart.description)


@pytest.mark.parametrize(
    ("before", "after", "words", "message"),
    [
        (torch.zeros(2, 3), torch.zeros(3, 2), ["a", "b"], r"^after: expected the shape of before, \(2, 3\)"),
        (torch.zeros(2, 3), torch.full((2, 3), math.nan), ["a", "b"], "^after: expected finite numbers"),
        (torch.full((2, 3), math.inf), torch.zeros(2, 3), ["a", "b"], "^before: expected finite numbers"),
        (torch.zeros(2, 3), torch.zeros(2, 3), ["a"], "^words: expected 2 words"),
        (torch.zeros(3), torch.zeros(3), ["a"], "^before: expected 2 axes"),
    ],
)
def test_norms_that_cannot_be_drawn(
    before: torch.Tensor, after: torch.Tensor, words: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        normalisation_effect(before, after, words)


@pytest.mark.parametrize("log", [False, True])
def test_lines_are_named_and_told(log: bool, texts_of: TextsOf) -> None:
    chart = _drawn(_lines(fast=[4.0, 1.0], slow=[4.0, 3.0]), log=log, dashed=["slow"])
    assert {"fast", "slow", "steps", "loss (log scale)" if log else "loss"} <= set(texts_of(chart))
    assert "fast: 4 to 1; slow: 4 to 3." in str(chart.description)


@pytest.mark.parametrize("log", [False, True])
def test_names_of_lines_that_end_together_do_not_overlap(log: bool) -> None:
    table = _lines(**{f"line {number}": [1.0, 5.0 + 1e-3 * number] for number in range(7)})
    spec = _drawn(table, log=log).to_dict()
    names = next(
        rows for rows in spec["datasets"].values() if len(rows) == 7 and all("ink" in row for row in rows)
    )
    low, high = spec["layer"][0]["encoding"]["y"]["scale"]["domain"]
    place = math.log10 if log else float
    heights = sorted(300 * (place(row["y"]) - place(low)) / (place(high) - place(low)) for row in names)
    assert all(upper - lower > 15 for lower, upper in pairwise(heights))
    assert heights[0] >= 0
    assert heights[-1] <= 300 + 1e-6


def test_lines_over_many_decades_have_ticks_at_powers_of_ten(texts_of: TextsOf) -> None:
    texts = texts_of(_drawn(_lines(fading=[1e-16, 1.0]), log=True))
    assert 3 < sum("e" in text and text[0].isdigit() for text in texts) < 14
    assert {"1", "2", "5"} <= set(texts_of(_drawn(_lines(level=[1.0, 6.0]), log=True)))


def test_a_line_that_ends_early_has_its_name_where_it_ends() -> None:
    table = pd.concat([_lines(short=[1.0, 2.0]), _lines(long=[1.0, 2.0, 3.0])])
    spec = _drawn(table).to_dict()
    (names,) = [layer for layer in spec["layer"] if layer["mark"]["type"] == "text"]
    found = {row["line"]: row["x"] for row in spec["datasets"][names["data"]["name"]]}
    assert found == {"short": 1, "long": 2}


def test_dots_mark_each_point() -> None:
    plain, dotted = (_drawn(_lines(fast=[4.0, 1.0]), dots=dots).to_dict()["layer"] for dots in (False, True))
    assert len(dotted) == len(plain) + 1


def test_the_highest_point_of_a_line_is_marked(texts_of: TextsOf) -> None:
    chart = _drawn(_lines(peaked=[0.001, 0.0052, 0.002], rising=[0.001, 0.002, 0.0061]), mark="highest")
    texts = texts_of(chart)
    assert "0.0052" in texts
    assert "0.0061" not in texts  # the end of a line, which may rise further beyond the chart
    assert str(chart.description).endswith("peaked is highest at 1, with 0.0052.")


def test_probabilities_are_spaced_by_their_log_odds(texts_of: TextsOf) -> None:
    table = pd.DataFrame({"line": "loss", "x": [0.5, 0.9, 0.99, 0.999], "y": [1.0, 0.5, 0.6, 0.9]})
    chart = _drawn(table, odds=True, mark="lowest")
    assert texts_of(chart).count("90%") == 2  # a tick, and the number of the lowest point
    assert {"50%", "99%", "99.9%"} <= set(texts_of(chart))
    near_certainty = table.assign(x=[0.5, 0.991, 0.999, 0.9999])
    assert "99.10%" in texts_of(_drawn(near_certainty, odds=True, mark="lowest"))


def test_a_level_line_is_drawn(texts_of: TextsOf) -> None:
    for log in (False, True):
        assert "level" in texts_of(_drawn(_lines(level=[2.0, 2.0]), log=log))


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (_lines(**{str(number): [1.0] for number in range(8)}), {}, "1 to 7 lines, got 8"),
        (_lines(fast=[1.0]), {"dashed": ["slow"]}, r"names from \['fast'\], got \['slow'\]"),
        (_lines(fast=[math.nan]), {}, "finite numbers in x and y, got y nan in row 0"),
        (_lines(fast=[0.0]), {"log": True}, "above 0 for a log scale, got y 0 in row 0"),
        (_lines(fast=[0.5, 0.2]), {"odds": True}, "expected x above 0 and below 1"),
    ],
)
def test_lines_that_cannot_be_drawn(table: pd.DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _drawn(table, **options)


def test_costs_say_the_shares(texts_of: TextsOf) -> None:
    chart = layer_costs(PARAMETERS, _work())
    texts = texts_of(chart)
    assert {"60%", "30%", "10%", "100 parameters", "network", "attention", "norm", "mean"} <= set(texts)
    told = str(chart.description)
    assert "Parameters: network 60%, attention 30%, norm 10%." in told
    assert "at 1 words network 75%, mean 25%; at 4 words network 43%, mean 57%." in told
