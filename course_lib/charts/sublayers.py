"""The charts of lesson 03: the effect of layer normalisation, and what a layer costs."""

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.inputs import Floats, Numbers, as_words, check_count, from_tensor
from course_lib.charts.marks import (
    captioned,
    fixed_x,
    fixed_y,
    index_y,
    panel_title,
    scale_of,
    tips,
    word_axis,
)
from course_lib.charts.theme import ALARM_INK, CATEGORIES, LINE, QUIET_INK, WIDTH, Picture, ink_on


def normalisation_effect(before: Numbers, after: Numbers, words: Sequence[str]) -> Picture:
    """Draw the features at each position before and after layer normalisation, as ticks over a bar.

    `before` and `after` are (L, D), and `words` are the words at the L positions. The bar is centred on the
    mean and extends one standard deviation (with the divisor D, not D - 1) to each side; both numbers are
    written next to it. The panels share one axis. Raises ValueError if the shapes do not match, there aren't
    L words, or a number isn't finite.
    """
    left = from_tensor(before, "before", (2,), finite=True)
    right = from_tensor(after, "after", (2,), finite=True)
    if left.shape != right.shape:
        raise ValueError(f"after: expected the shape of before, {left.shape}, got {right.shape}.")
    rows = as_words(words, len(left), "words")
    reach = 1.05 * float(max(np.abs(left).max(), np.abs(right).max(), 1.0))
    axis = word_axis(rows, 20, orient="left")
    panels = [
        _features(left, rows, reach, axis).properties(title=panel_title("before")),
        _features(right, rows, reach, None).properties(title=panel_title("after")),
    ]
    subtitle = (
        "Ticks: the features of a word's vector. Bars: one standard deviation to each side of the mean."
    )
    details = [
        f"{word}: {_mean_and_spread(one.mean(), one.std())} before, "
        f"{_mean_and_spread(other.mean(), other.std())} after"
        for word, one, other in zip(rows, left, right, strict=True)
    ]
    described = f"Mean and standard deviation. {'; '.join(details)}."
    return captioned(
        alt.hconcat(*panels, spacing=24),
        "Before: each position has its own mean and spread. After: the same everywhere",
        subtitle,
        described,
    )


def _features(values: Floats, words: list[str], reach: float, axis: alt.Axis | None) -> alt.LayerChart:
    count, features = values.shape
    width = (WIDTH - 120) / 2
    row = index_y("row", count, None, axis)
    table = pd.DataFrame(
        {
            "row": np.repeat(np.arange(count), features),
            "word": np.repeat(words, features),
            "feature": np.tile(np.arange(features), count),
            "value": values.ravel(),
        }
    )
    ticks = (
        alt.Chart(table)
        .mark_tick(color=CATEGORIES[0], opacity=0.55, thickness=1.5, height=20)
        .encode(
            x=fixed_x("value", -reach, reach, alt.Axis(title="value of a feature")),
            y=row,
            tooltip=tips(("word:N", "word"), ("feature:Q", "feature"), ("value:Q", "value", ".3~g")),
        )
    )
    summary = pd.DataFrame({"row": range(count), "mean": values.mean(axis=-1), "spread": values.std(axis=-1)})
    summary["low"], summary["high"] = summary["mean"] - summary["spread"], summary["mean"] + summary["spread"]
    summary["details"] = list(map(_mean_and_spread, summary["mean"], summary["spread"]))
    base = alt.Chart(summary).encode(y=row)
    bar = base.mark_rule(strokeWidth=3, color=CATEGORIES[1], yOffset=15).encode(x="low:Q", x2="high:Q")
    dot = base.mark_point(filled=True, size=50, opacity=1, color=CATEGORIES[1], yOffset=15).encode(x="mean:Q")
    details = base.mark_text(align="right", color=ALARM_INK, yOffset=-15, fontSize=11).encode(
        x=alt.value(width), text="details:N"
    )
    zero = alt.Chart(pd.DataFrame({"value": [0.0]})).mark_rule(color=QUIET_INK, strokeDash=[2, 3])
    # Lines between the rows show which row a number belongs to.
    between = alt.Chart(summary.iloc[:-1]).mark_rule(color=LINE, yOffset=23).encode(y=row)
    return alt.LayerChart(
        layer=[between, zero.encode(x="value:Q"), ticks, bar, dot, details], width=width, height=46 * count
    )


def _mean_and_spread(mean: float, spread: float) -> str:
    return f"{mean + 0.0:.2f} ± {spread:.2f}".replace("-0.00", "0.00")


COLOURS = (CATEGORIES[1], CATEGORIES[0], CATEGORIES[5], QUIET_INK)
"""The colours of a layer's parts."""


def layer_costs(parameters: Mapping[str, int], multiplications: pd.DataFrame) -> Picture:
    """Draw each part's share of a layer's parameters, and of its multiplications at each sentence length.

    `parameters` maps each part of a layer to its number of parameters. `multiplications` has one row for each
    part and sentence length, with the columns `length` (words, 1 or more), `part` and `multiplications` (for
    each word). Raises ValueError if the two arguments name more than four parts in total.
    """
    parts = list(dict.fromkeys([*parameters, *multiplications["part"]]))
    check_count(len(parts), len(COLOURS), "parameters and multiplications", "parts")
    colour = alt.Color(
        "part:N", scale=scale_of(parts, COLOURS), sort=parts, legend=alt.Legend(title=None, orient="bottom")
    )
    total = sum(parameters.values())
    totals = multiplications.groupby("length")["multiplications"].transform("sum")
    shares = multiplications.assign(
        share=multiplications["multiplications"] / totals,
        order=[parts.index(part) for part in multiplications["part"]],
    )
    panels: list[alt.Chart | alt.LayerChart] = [
        _parameter_bar(parameters, colour).properties(title=panel_title(f"{total:,} parameters")),
        _arithmetic(shares, colour).properties(title=panel_title("multiplications for each word")),
    ]
    details = [f"{part} {count / total:.0%}" for part, count in parameters.items()]
    ends = [
        f"at {length} words "
        + ", ".join(f"{row.part} {row.share:.0%}" for row in shares[shares["length"] == length].itertuples())
        for length in (shares["length"].min(), shares["length"].max())
    ]
    described = f"Parameters: {', '.join(details)}. Multiplications: {'; '.join(ends)}."
    return captioned(
        alt.hconcat(*panels, spacing=40),
        "Where are a layer's parameters, and where is its arithmetic?",
        "",
        described,
    )


def _parameter_bar(parameters: Mapping[str, int], colour: alt.Color) -> alt.LayerChart:
    """Draw one bar, stacked from the parts in their order, with their shares written in it."""
    table = pd.DataFrame({"part": list(parameters), "parameters": list(parameters.values()), "all": ""})
    table["share"] = table["parameters"] / table["parameters"].sum()
    table["above"] = table["share"].cumsum()
    table["below"] = table["above"] - table["share"]
    table["middle"] = (table["above"] + table["below"]) / 2
    table["shown"] = [f"{share:.0%}" if share >= 0.04 else "" for share in table["share"]]
    table["ink"] = [ink_on(fill) for fill, _ in zip(COLOURS, parameters, strict=False)]
    axis = alt.Axis(title="share of the parameters", format="%")
    base = alt.Chart(table).encode(x=alt.X("all:N", title=None, axis=None))
    bar = base.mark_bar(width=90).encode(
        y=fixed_y("below", 0, 1, axis),
        y2="above:Q",
        color=colour,
        tooltip=tips(("part:N", "part"), ("parameters:Q", "parameters", ","), ("share:Q", "share", ".1%")),
    )
    text = base.mark_text(fontWeight="bold", aria=False).encode(
        y="middle:Q", text="shown:N", fill=alt.Fill("ink:N", scale=None)
    )
    return alt.LayerChart(layer=[bar, text], width=130, height=270)


def _arithmetic(table: pd.DataFrame, colour: alt.Color) -> alt.Chart:
    """Draw each part's share of the multiplications at each sentence length as stacked areas."""
    log = alt.Scale(type="log", base=2, nice=False)
    ticks = alt.Axis(format=",", tickCount=7)
    share = alt.Axis(title="share of the multiplications", format="%")
    return (
        alt.Chart(table)
        .mark_area(opacity=1)
        .encode(
            x=alt.X("length:Q", title="words in the sentence (log scale)", scale=log, axis=ticks),
            y=alt.Y("share:Q", stack="zero", axis=share, scale=alt.Scale(domain=[0, 1])),
            color=colour,
            order=alt.Order("order:Q"),
            tooltip=tips(
                ("part:N", "part"),
                ("length:Q", "words", ","),
                ("multiplications:Q", "multiplications for each word", ","),
                ("share:Q", "share", ".1%"),
            ),
        )
        .properties(width=400, height=270)
    )
