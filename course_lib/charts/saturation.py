"""Why the scores are divided by the root of d_k: softmax saturates (paper, section 3.2.1)."""

import math

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.colours import ALARM_INK, CATEGORIES
from course_lib.charts.theme import Picture

COLUMNS = ("d_k", "divided", "largest_weight", "gradient")
SERIES = ["divided", "undivided"]


def softmax_saturation(
    table: pd.DataFrame, *, title: str = "Without the root of d_k, softmax saturates and its gradient fades"
) -> Picture:
    """Two panels against d_k: the largest attention weight, and the size of the softmax's gradient.

    `table` has one row for each random draw of a query and its keys:

    - `d_k`: the width of queries and keys, 1 or more;
    - `divided`: True where the scores were divided by the root of d_k;
    - `largest_weight`: the largest weight that softmax gave, 0 to 1;
    - `gradient`: how much the weights answer to the scores, 0 or more, for example the Frobenius norm of the
      softmax's Jacobian, diag(w) - w w^T.

    Lines are means over the draws; bands hold four fifths of them (from the 10th to the 90th percentile).
    Raises ValueError for missing columns, an empty table, or values outside these ranges.
    """
    _check(table)
    summary = _summarise(table)
    weights = _against_width(
        summary, "largest_weight", "largest attention weight", alt.Scale(domain=[0, 1]), alt.Axis(tickCount=5)
    )
    floor = float(summary.loc[summary["gradient"] > 0, "gradient"].min()) / 4
    shown = ["gradient", "gradient_low", "gradient_high"]
    gradients = _against_width(
        summary.assign(**{name: summary[name].clip(lower=floor) for name in shown}),
        "gradient",
        "size of the softmax's gradient (log scale)",
        alt.Scale(type="log", domainMin=floor, nice=False),
        _log_axis(floor, float(summary["gradient"].max())),
    )
    lines = [
        "Lines: mean over random draws. Bands: four fifths of the draws; on the right they may reach lower."
    ]
    picture = alt.hconcat(weights, gradients, spacing=30).resolve_scale(y="independent")
    return picture.properties(
        title=alt.Title(title, subtitle=lines), description=f"{title}. {_told(summary)}"
    )


def _told(summary: pd.DataFrame) -> str:
    """The right end of the picture in words."""
    widest = summary[summary["d_k"] == summary["d_k"].max()]
    ends = [
        f"{series}: largest weight {weight:.2f}, gradient {gradient:.2g}"
        for series, weight, gradient in zip(
            widest["series"], widest["largest_weight"], widest["gradient"], strict=True
        )
    ]
    return f"Means at d_k = {summary['d_k'].max()}: {'; '.join(ends)}."


def _check(table: pd.DataFrame) -> None:
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise ValueError(f"table: expected the columns {COLUMNS}, missing {missing}.")
    if table.empty:
        raise ValueError("table: expected at least one draw, got an empty table.")
    if table["divided"].dtype != bool:
        raise ValueError(
            f"table: expected True or False in the column divided, got {table['divided'].dtype}."
        )
    for name, low, high in (("d_k", 1, math.inf), ("largest_weight", 0, 1.001), ("gradient", 0, math.inf)):
        wrong = table[~table[name].between(low, high)]
        if len(wrong):
            raise ValueError(
                f"table: expected {name} between {low} and {high:.4g}, got {wrong[name].iloc[0]} "
                f"in row {wrong.index[0]}."
            )
    if not (table["gradient"] > 0).any():
        raise ValueError(
            "table: expected some gradient above 0, got zeros only; the log scale cannot show them."
        )


def _summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and percentiles for each d_k, divided or not."""
    series = np.where(table["divided"], *SERIES)
    groups = table.assign(series=series).groupby(["d_k", "series"])
    parts = {}
    for name in ("largest_weight", "gradient"):
        parts[name] = groups[name].mean()
        parts[f"{name}_low"] = groups[name].quantile(0.1)
        parts[f"{name}_high"] = groups[name].quantile(0.9)
    return pd.DataFrame(parts).reset_index()


def _against_width(
    summary: pd.DataFrame, name: str, axis_title: str, scale: alt.Scale, axis: alt.Axis
) -> alt.LayerChart:
    """A line with its band for each series, named at its right end."""
    widths = sorted(summary["d_k"].unique().tolist())
    powers_of_four = [width for width in widths if (math.log2(width) / 2).is_integer()]
    x = alt.X(
        "d_k:Q",
        title="d_k, width of queries and keys (log scale)",
        scale=alt.Scale(type="log", base=2, nice=False),
        axis=alt.Axis(values=powers_of_four or widths, format="d"),
    )
    colour = alt.Color("series:N", scale=alt.Scale(domain=SERIES, range=CATEGORIES[:2]), legend=None)
    dashes = alt.Scale(domain=SERIES, range=[[1, 0], [7, 4]])
    shapes = alt.Scale(domain=SERIES, range=["circle", "square"])
    base = alt.Chart(summary).encode(x=x, color=colour)
    band = base.mark_area(opacity=0.18, clip=True).encode(
        y=alt.Y(f"{name}_low:Q", title=axis_title, scale=scale, axis=axis), y2=f"{name}_high:Q"
    )
    line = base.mark_line(strokeWidth=2.5).encode(
        y=alt.Y(f"{name}:Q", scale=scale),
        strokeDash=alt.StrokeDash("series:N", scale=dashes, legend=None),
    )
    points = base.mark_point(filled=True, size=55, opacity=1).encode(
        y=alt.Y(f"{name}:Q", scale=scale),
        shape=alt.Shape("series:N", scale=shapes, legend=None),
        tooltip=[
            alt.Tooltip("d_k:Q", title="d_k"),
            alt.Tooltip("series:N", title="scores"),
            alt.Tooltip(f"{name}:Q", title="mean", format=".3~g"),
            alt.Tooltip(f"{name}_low:Q", title="10th percentile", format=".3~g"),
            alt.Tooltip(f"{name}_high:Q", title="90th percentile", format=".3~g"),
        ],
    )
    inks = alt.Fill("series:N", scale=alt.Scale(domain=SERIES, range=[CATEGORIES[0], ALARM_INK]), legend=None)
    names = [
        alt.Chart(end)
        .mark_text(align="right", dy=18 if rank == 0 else -14, fontWeight="bold", fontSize=12)
        .encode(x=x, y=alt.Y(f"{name}:Q", scale=scale), text="series:N", fill=inks)
        for rank, (_, end) in enumerate(summary[summary["d_k"] == widths[-1]].sort_values(name).groupby(name))
    ]
    return alt.LayerChart(layer=[band, line, points, *names], width=270, height=240)


def _log_axis(lowest: float, highest: float) -> alt.Axis:
    """Ticks at 1, 2 and 5 times the powers of ten; over many decades at the powers alone."""
    decades = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
    steps = (1, 2, 5) if len(decades) < 6 else (1,)
    return alt.Axis(values=[step * 10.0**power for power in decades for step in steps], format="~g")
