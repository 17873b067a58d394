"""Some named lines over one axis: how something measured grows, shrinks or is learned."""

import math
from collections.abc import Collection

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Floats
from course_lib.charts.colours import CATEGORIES, contrast
from course_lib.charts.theme import WIDTH, Picture

COLUMNS = ("line", "x", "y")
HEIGHT, NAME_ROOM, NAME_HEIGHT = 300, 210, 16
"""Pixels: the height, what is kept free for the names on the right, and the least distance of two names."""


def named_lines(
    table: pd.DataFrame,
    *,
    across: str,
    up: str,
    title: str,
    log: bool = False,
    dashed: Collection[str] = (),
) -> Picture:
    """One line for each name, with the name at its right end.

    `table` has one row a point, with the columns `line` (the name; seven at most), `x` and `y`. `across` and
    `up` name the axes. With `log` the upward axis is logarithmic. Lines in `dashed` are drawn with dashes.
    Raises ValueError for missing columns, an empty table, too many lines, an unknown name in `dashed`,
    numbers that aren't finite, or with `log` numbers that aren't above 0.
    """
    _check(table, log, dashed)
    names = list(dict.fromkeys(table["line"]))
    low, high = _domain(table["y"].to_numpy(float), log)
    scale = alt.Scale(type="log" if log else "linear", domain=[low, high], nice=False)
    axis = _powers_of_ten(low, high) if log else alt.Axis()
    colours = alt.Scale(domain=names, range=list(CATEGORIES[: len(names)]))
    dashes = alt.Scale(domain=names, range=[[6, 4] if name in dashed else [1, 0] for name in names])
    # Between whole numbers, such as steps and places, there is nothing to mark.
    ticks = alt.Axis(tickMinStep=1) if (table["x"] % 1 == 0).all() else alt.Axis()
    x = alt.X("x:Q", title=across, axis=ticks, scale=alt.Scale(nice=False, zero=False))
    y = alt.Y("y:Q", title=f"{up} (log scale)" if log else up, scale=scale, axis=axis)
    base = alt.Chart(table).encode(x=x, y=y, color=alt.Color("line:N", scale=colours, legend=None))
    lines = base.mark_line(strokeWidth=2.5).encode(
        strokeDash=alt.StrokeDash("line:N", scale=dashes, legend=None)
    )
    touch = base.mark_point(size=90, opacity=0, filled=True).encode(
        tooltip=[
            alt.Tooltip("line:N", title="line"),
            alt.Tooltip("x:Q", title=across, format=".3~g"),
            alt.Tooltip("y:Q", title=up, format=".3~g"),
        ]
    )
    ends = table.loc[table.groupby("line", sort=False)["x"].idxmax()]
    labels = ends.assign(y=_apart(ends["y"].to_numpy(float), low, high, log), x=table["x"].max())
    written = (
        alt.Chart(labels.assign(ink=[_readable(CATEGORIES[names.index(name)]) for name in labels["line"]]))
        .mark_text(align="left", dx=8, fontWeight="bold", fontSize=12)
        .encode(x=x, y=y, text="line:N", fill=alt.Fill("ink:N", scale=None))
    )
    asked = title if title.endswith("?") else f"{title}."
    told = [f"{name}: {first:.3g} to {last:.3g}" for name, first, last in _from_to(table, names)]
    return alt.LayerChart(
        layer=[lines, touch, written],
        width=WIDTH - NAME_ROOM,
        height=HEIGHT,
        title=alt.Title(title),
        description=f"{asked} {up} against {across}, from left to right. {'; '.join(told)}.",
    )


def _check(table: pd.DataFrame, log: bool, dashed: Collection[str]) -> None:
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise ValueError(f"table: expected the columns {COLUMNS}, missing {missing}.")
    if table.empty:
        raise ValueError("table: expected at least one point, got an empty table.")
    names = set(table["line"])
    if len(names) > len(CATEGORIES):
        raise ValueError(
            f"table: expected at most {len(CATEGORIES)} lines, got {len(names)}. Leave some out."
        )
    if unknown := sorted(set(dashed) - names):
        raise ValueError(f"dashed: expected names of lines, {sorted(names)}, got {unknown}.")
    if not np.isfinite(table[["x", "y"]].to_numpy(float)).all():
        raise ValueError("table: expected finite numbers in x and y, got NaN or infinity.")
    if log and not (table["y"] > 0).all():
        raise ValueError(f"table: expected y above 0 for a log scale, got {table['y'].min():.3g}.")


def _domain(values: Floats, log: bool) -> tuple[float, float]:
    """From the lowest to the highest value, with a little room."""
    if log:
        low, high = math.log10(values.min()), math.log10(values.max())
        room = 0.04 * max(high - low, 0.5)
        return 10 ** (low - room), 10 ** (high + room)
    room = 0.05 * float(np.ptp(values)) or 1.0
    return float(values.min()) - room, float(values.max()) + room


def _apart(values: Floats, low: float, high: float, log: bool) -> list[float]:
    """Move the heights of the names so that none is written over another."""

    def place(value: float) -> float:
        return math.log10(value) if log else value

    step = (place(high) - place(low)) * NAME_HEIGHT / HEIGHT
    order = sorted(range(len(values)), key=lambda index: values[index])
    heights = [place(float(values[index])) for index in order]
    for upper in range(1, len(heights)):
        heights[upper] = max(heights[upper], heights[upper - 1] + step)
    # What has been pushed out at the top pushes the others down.
    heights[-1] = min(heights[-1], place(high))
    for lower in reversed(range(len(heights) - 1)):
        heights[lower] = min(heights[lower], heights[lower + 1] - step)
    moved = dict(zip(order, heights, strict=True))
    return [10 ** moved[index] if log else moved[index] for index in range(len(values))]


def _readable(colour: str) -> str:
    """The colour, darkened until it can be read on white."""
    channels = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    while contrast(colour, "#ffffff") < 4.5:
        channels = [int(0.9 * channel) for channel in channels]
        colour = "#" + "".join(f"{channel:02x}" for channel in channels)
    return colour


def _powers_of_ten(low: float, high: float) -> alt.Axis:
    """Ticks at 1, 2 and 5 times the powers of ten; over many decades at the powers alone, or at some."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) < 4 else (1,)
    every = 1 + len(decades) // 12
    return alt.Axis(
        values=[step * 10.0**power for power in decades if power % every == 0 for step in steps],
        format="~g" if decades[0] >= -6 and decades[-1] <= 6 else ".0e",
    )


def _from_to(table: pd.DataFrame, names: list[str]) -> list[tuple[str, float, float]]:
    """The left and the right end of each line."""
    ends = []
    for name in names:
        line = table[table["line"] == name].sort_values("x")["y"].tolist()
        ends.append((name, line[0], line[-1]))
    return ends
