"""The charts that show why scores are divided by the root of d_k."""

import math
from collections.abc import Callable

import pandas as pd
import pytest
import torch

from course_lib.charts import Picture, score_spread, softmax_saturation

TextsOf = Callable[[Picture], list[str]]


def _table() -> pd.DataFrame:
    generator = torch.Generator().manual_seed(0)
    rows = []
    for width in (1, 16, 256):
        for _ in range(20):
            scores = torch.randn(width, generator=generator) @ torch.randn(width, 8, generator=generator)
            for divided in (True, False):
                weights = torch.softmax(scores / math.sqrt(width) if divided else scores, dim=-1)
                jacobian = torch.diag(weights) - torch.outer(weights, weights)
                rows.append(
                    {
                        "d_k": width,
                        "divided": divided,
                        "largest_weight": float(weights.max()),
                        "gradient": float(jacobian.norm()),
                    }
                )
    return pd.DataFrame(rows)


def test_saturation_names_both_series_in_both_panels(texts_of: TextsOf) -> None:
    texts = texts_of(softmax_saturation(_table()))
    assert texts.count("divided") == texts.count("undivided") == 2
    assert {"largest attention weight", "size of the softmax's gradient (log scale)"} <= set(texts)
    assert texts.count("d_k, width of queries and keys (log scale)") == 2


def test_saturation_tells_the_means() -> None:
    table = _table()
    widest = table[(table["d_k"] == 256) & ~table["divided"]]
    told = str(softmax_saturation(table).description)
    assert "Means at d_k = 256" in told
    assert f"undivided: largest weight {widest['largest_weight'].mean():.2f}" in told


def test_saturation_survives_gradients_that_vanish(texts_of: TextsOf) -> None:
    table = _table()
    table.loc[(table["d_k"] == 256) & ~table["divided"], "gradient"] = 0.0
    assert "undivided" in texts_of(softmax_saturation(table))


def test_saturation_needs_a_gradient_above_zero() -> None:
    with pytest.raises(ValueError, match="table: expected a gradient above 0"):
        softmax_saturation(_table().assign(gradient=0.0))


def test_spread_says_each_standard_deviation(texts_of: TextsOf) -> None:
    samples = {64: torch.tensor([-8.0, 8.0, 8.0, -8.0]).half(), 4: torch.tensor([[-2.0, 2.0]])}
    chart = score_spread(samples)
    texts = texts_of(chart)
    assert texts.index("d_k = 4") < texts.index("d_k = 64")
    assert {"± 2.00", "± 8.00"} <= set(texts)
    assert "8.00 at d_k = 64, whose root is 8.00" in str(chart.description)


def test_spread_of_one_width_away_from_zero(texts_of: TextsOf) -> None:
    assert "± 1.00" in texts_of(score_spread({1: [99.0, 101.0]}))


def test_spread_needs_finite_products() -> None:
    with pytest.raises(ValueError, match=r"samples\[4\]: expected finite numbers"):
        score_spread({4: [1.0, math.nan, 2.0]})
