"""Why the scores are divided by the root of d_k: their spread grows with it (paper, footnote 4)."""

import math
from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Floats, Numbers, from_tensor
from course_lib.charts.colours import ALARM_INK, CATEGORIES, QUIET_INK
from course_lib.charts.theme import Picture

ACROSS, ROW, GAP = 310, 48, 6
"""Pixels: the width of an outline, its height, and what is free between two."""


def score_spread(
    samples: Mapping[int, Numbers],
    *,
    title: str = "The wider the vectors, the wider the scores spread",
) -> Picture:
    """Two panels: how scores are distributed for several d_k, and their standard deviation against d_k.

    `samples` maps d_k to the scores (query times key) drawn at this width, in any shape. Outlines on the
    left are scaled to one height; a bar reaches one standard deviation to each side of the mean. The dashed
    line on the right is the root of d_k. Raises ValueError for scores that aren't finite or all the same,
    or a d_k below 1.
    """
    scores = {width: _scores(samples[width], width) for width in sorted(samples)}
    if not scores:
        raise ValueError("samples: expected scores for at least one d_k, got none.")
    summary = pd.DataFrame(
        {
            "d_k": list(scores),
            "mean": [float(values.mean()) for values in scores.values()],
            "spread": [float(values.std()) for values in scores.values()],
            "root": [math.sqrt(width) for width in scores],
        }
    )
    summary["low"], summary["high"] = summary["mean"] - summary["spread"], summary["mean"] + summary["spread"]
    reach = float((summary["mean"].abs() + 3.5 * summary["spread"]).max())
    rows = [
        _outline(values, summary[summary["d_k"] == width], reach, last=width == max(scores))
        for width, values in scores.items()
    ]
    outlines = alt.vconcat(*rows, spacing=GAP).resolve_scale(y="independent")
    told = [
        f"{spread:.2f} at d_k = {width}, whose root is {root:.2f}"
        for width, spread, root in zip(summary["d_k"], summary["spread"], summary["root"], strict=True)
    ]
    return alt.hconcat(outlines, _growth(summary), spacing=40).properties(
        title=alt.Title(title, subtitle="Bars on the left reach one standard deviation to each side."),
        description=f"{title}. Standard deviation of the scores: {'; '.join(told)}.",
    )


def _scores(values: Numbers, width: int) -> Floats:
    if width < 1:
        raise ValueError(f"samples: expected each d_k to be 1 or more, got {width}.")
    flat = from_tensor(values, f"samples[{width}]", range(1, 9)).ravel()
    finite, different = int(np.isfinite(flat).sum()), len(np.unique(flat))
    if finite < flat.size or different < 2:
        raise ValueError(
            f"samples[{width}]: expected finite scores that differ, "
            f"got {flat.size}, of which {finite} are finite and {different} differ."
        )
    return flat


def _outline(values: Floats, row: pd.DataFrame, reach: float, *, last: bool) -> alt.LayerChart:
    """A histogram's outline at one d_k, with its standard deviation as a bar and a number."""
    edges = np.linspace(values.min(), values.max(), 31)
    shares = np.histogram(values, edges)[0] / len(values)
    width = int(row["d_k"].iloc[0])
    outline = pd.DataFrame({"score": (edges[1:] + edges[:-1]) / 2, "share": shares, "d_k": width})
    area = (
        alt.Chart(outline)
        .mark_area(interpolate="monotone", color=CATEGORIES[0], opacity=0.4, clip=True)
        .encode(
            x=alt.X(
                "score:Q",
                title="score, query times key" if last else None,
                scale=alt.Scale(domain=[-reach, reach]),
                axis=alt.Axis(labels=last, ticks=last, domain=last),
            ),
            y=alt.Y("share:Q", axis=None),
            tooltip=[
                alt.Tooltip("d_k:Q", title="d_k"),
                alt.Tooltip("score:Q", format=".3~g"),
                alt.Tooltip("share:Q", title="share of the scores", format=".1%"),
            ],
        )
    )
    named = alt.Chart(row.assign(width=f"d_k = {width}", told="± " + row["spread"].map("{:.2f}".format)))
    bar = named.mark_rule(strokeWidth=3, color=CATEGORIES[1]).encode(
        x="low:Q", x2="high:Q", y=alt.value(ROW - 4)
    )
    left = named.mark_text(align="left", fontWeight="bold").encode(
        x=alt.value(2), y=alt.value(12), text="width:N"
    )
    right = named.mark_text(align="right", color=ALARM_INK).encode(
        x=alt.value(ACROSS), y=alt.value(12), text="told:N"
    )
    return alt.LayerChart(layer=[area, bar, left, right], width=ACROSS, height=ROW)


def _growth(summary: pd.DataFrame) -> alt.LayerChart:
    """The standard deviation against d_k beside the root of d_k."""
    scale = alt.Scale(type="log", base=2, nice=False, padding=12)
    widths = alt.Axis(values=summary["d_k"].tolist(), format="d", labelOverlap=True)
    base = alt.Chart(summary).encode(x=alt.X("d_k:Q", title="d_k (log scale)", scale=scale, axis=widths))
    root = base.mark_line(strokeDash=[6, 4], color=QUIET_INK).encode(
        y=alt.Y(
            "root:Q",
            title="standard deviation of the scores (log scale)",
            scale=scale,
            axis=alt.Axis(format="~g", tickCount=6),
        )
    )
    points = base.mark_point(filled=True, size=80, opacity=1, color=CATEGORIES[1]).encode(
        y=alt.Y("spread:Q", scale=scale),
        tooltip=[
            alt.Tooltip("d_k:Q", title="d_k"),
            alt.Tooltip("spread:Q", title="standard deviation", format=".4~g"),
            alt.Tooltip("root:Q", title="root of d_k", format=".4~g"),
        ],
    )
    name = (
        alt.Chart(summary.tail(1).assign(name="root of d_k"))
        .mark_text(align="right", dx=-16, fontStyle="italic", color=QUIET_INK)
        .encode(x="d_k:Q", y="root:Q", text="name:N")
    )
    rows = max(3, len(summary))
    return alt.LayerChart(layer=[root, points, name], width=220, height=rows * (ROW + GAP) - GAP)
