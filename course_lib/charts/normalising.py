"""What layer normalisation does: the features of some positions, before and after."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Floats, Numbers, as_words, from_tensor
from course_lib.charts.colours import ALARM_INK, CATEGORIES, QUIET_INK
from course_lib.charts.theme import WIDTH, Picture, panel_title

ROW, GAP = 46, 24
SIDE_ROOM = 96
"""Pixels kept free for the words beside the rows."""


def normalisation_effect(
    before: Numbers,
    after: Numbers,
    words: Sequence[str],
    *,
    title: str = "Before, each position has its own mean and spread; after, all have the same",
) -> Picture:
    """Two panels with one row a position: a stroke for each feature, and a bar over one standard deviation.

    `before` and `after` are (L, D), `words` the L positions. The bar is centred on the mean and reaches one
    standard deviation, that of all D features, to each side; beside it both numbers are written. Both panels
    have the same axis. Raises ValueError when the shapes do not fit or a number isn't finite.
    """
    left, right = from_tensor(before, "before", (2,)), from_tensor(after, "after", (2,))
    if left.shape != right.shape:
        raise ValueError(f"after: expected the shape of before, {left.shape}, got {right.shape}.")
    for name, values in (("before", left), ("after", right)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name}: expected finite numbers, got NaN or infinity. Look at its rows first.")
    rows = as_words(words, len(left), "words")
    reach = 1.05 * float(max(np.abs(left).max(), np.abs(right).max(), 1.0))
    panels = [
        _panel(values, rows, reach, named=not place).properties(title=panel_title(name))
        for place, (name, values) in enumerate((("before", left), ("after", right)))
    ]
    lines = [
        "Strokes: the features of a word's vector. Bars: one standard deviation to each side of the mean."
    ]
    return alt.hconcat(*panels, spacing=GAP).properties(
        title=alt.Title(title, subtitle=lines), description=f"{title}. {_told(left, right, rows)}"
    )


def _panel(values: Floats, words: list[str], reach: float, *, named: bool) -> alt.LayerChart:
    x = alt.Scale(domain=[-reach, reach], nice=False)
    labels = "[" + ", ".join(repr(word) for word in words) + "][datum.value]"
    y = alt.Y(
        "row:O",
        title=None,
        axis=alt.Axis(labelExpr=labels, labelLimit=SIDE_ROOM - 16, ticks=False, domain=False)
        if named
        else None,
    )
    features = pd.DataFrame(
        {
            "row": np.repeat(np.arange(len(values)), values.shape[1]),
            "word": np.repeat(words, values.shape[1]),
            "feature": np.tile(np.arange(values.shape[1]), len(values)),
            "value": values.ravel(),
        }
    )
    strokes = (
        alt.Chart(features)
        .mark_tick(color=CATEGORIES[0], opacity=0.55, thickness=1.5, height=20)
        .encode(
            x=alt.X("value:Q", title="value of a feature", scale=x),
            y=y,
            tooltip=["word:N", "feature:Q", alt.Tooltip("value:Q", format=".3~g")],
        )
    )
    summary = pd.DataFrame(
        {"row": range(len(values)), "mean": values.mean(axis=-1), "spread": values.std(axis=-1)}
    )
    summary["low"], summary["high"] = summary["mean"] - summary["spread"], summary["mean"] + summary["spread"]
    summary["told"] = [_numbers(*pair) for pair in zip(summary["mean"], summary["spread"], strict=True)]
    base = alt.Chart(summary).encode(y=y)
    bar = base.mark_rule(strokeWidth=3, color=CATEGORIES[1], yOffset=15).encode(x="low:Q", x2="high:Q")
    middle = base.mark_point(filled=True, size=50, opacity=1, color=CATEGORIES[1], yOffset=15).encode(
        x="mean:Q"
    )
    told = base.mark_text(align="right", color=ALARM_INK, yOffset=-16, fontSize=11).encode(
        x=alt.value((WIDTH - SIDE_ROOM - GAP) / 2), text="told:N"
    )
    zero = (
        alt.Chart(pd.DataFrame({"value": [0.0]}))
        .mark_rule(color=QUIET_INK, strokeDash=[2, 3])
        .encode(x="value:Q")
    )
    return alt.LayerChart(
        layer=[zero, strokes, bar, middle, told],
        width=(WIDTH - SIDE_ROOM - GAP) / 2,
        height=ROW * len(words),
    )


def _numbers(mean: float, spread: float) -> str:
    return f"{mean + 0.0:.2f} ± {spread:.2f}".replace("-0.00", "0.00")


def _told(before: Floats, after: Floats, words: list[str]) -> str:
    """The picture in words: mean and spread of each row, before and after."""
    lines = [
        f"{word}: {_numbers(one.mean(), one.std())} before, {_numbers(other.mean(), other.std())} after"
        for word, one, other in zip(words, before, after, strict=True)
    ]
    return f"Mean and standard deviation. {'; '.join(lines)}."
