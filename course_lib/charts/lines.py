"""The line chart that many lessons use."""

import math
from collections.abc import Callable, Collection
from typing import Literal

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.inputs import Floats, check_above, check_count
from course_lib.charts.marks import captioned, powers_of_ten, scale_of, tips
from course_lib.charts.theme import CATEGORIES, WIDTH, Picture, readable

HEIGHT, NAME_ROOM, NAME_HEIGHT = 300, 210, 16
"""Pixels: the height of a chart, the width of the names on the right, and the distance between names."""

PROBABILITIES = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
"""The probabilities at which an axis of log odds has a tick."""


def named_lines(
    table: pd.DataFrame,
    *,
    across: str,
    up: str,
    title: str,
    log: bool = False,
    dashed: Collection[str] = (),
    dots: bool = False,
    odds: bool = False,
    mark: Literal["highest", "lowest"] | None = None,
) -> Picture:
    """Draw one line for each name, with the name at its end.

    `table` has one row for each point, with the columns `line` (at most seven names), `x` and `y`. `across`
    and `up` are the titles of the x axis and the y axis. With `log`, the y axis is logarithmic. With `odds`,
    x is a probability p, and the x axis is linear in the log odds, log(p / (1 - p)), to separate
    probabilities near 1. Lines in `dashed` are dashed; with `dots`, each point is marked. With `mark`, a dot
    marks the highest or lowest point of each line, and a label shows its y (with `odds`, its x), unless that
    point is at the right end of the chart. Raises ValueError for too many lines, an unknown name in `dashed`,
    numbers that aren't finite, values of `y` that aren't above 0 (with `log`), or values of `x` that aren't
    between 0 and 1 (with `odds`).
    """
    table = table.reset_index(drop=True)
    names = list(dict.fromkeys(table["line"]))
    check_count(len(names), len(CATEGORIES), "table", "lines")
    if unknown := sorted(set(dashed) - set(names)):
        raise ValueError(f"dashed: expected names from {sorted(names)}, got {unknown}.")
    for column in ("x", "y"):
        check_above(-math.inf, table, column, "finite numbers in x and y")
    if log:
        check_above(0, table, "y", "y above 0 for a log scale")
    # Axes of integers, such as steps and positions, get no ticks between the integers.
    whole = (table["x"] % 1 == 0).all()
    ticks = alt.Axis(tickCount=8, tickMinStep=1 if whole else alt.Undefined, labelOverlap=True)
    table["told"] = table["x"]
    if odds:
        if not table["x"].between(0, 1, inclusive="neither").all():
            raise ValueError("table: expected x above 0 and below 1, whose log odds are finite.")
        table["x"] = np.log(table["x"] / (1 - table["x"]))
        ticks = alt.Axis(
            values=[math.log(p / (1 - p)) for p in PROBABILITIES],
            labelExpr="format(1 / (1 + exp(-datum.value)), '.3~%')",
        )
    low, high = _domain(table["y"].to_numpy(float), log)
    scale = alt.Scale(type="log" if log else "linear", domain=[low, high], nice=False)
    x = alt.X("x:Q", title=across, axis=ticks, scale=alt.Scale(nice=False, zero=False))
    y = alt.Y(
        "y:Q",
        title=f"{up} (log scale)" if log else up,
        scale=scale,
        axis=powers_of_ten(low, high) if log else alt.Axis(),
    )
    colour = alt.Color("line:N", scale=scale_of(names), sort=names, legend=None)
    dashes = scale_of(names, [[6, 4] if name in dashed else [1, 0] for name in names])
    base = alt.Chart(table).encode(x=x, y=y, color=colour)
    lines = base.mark_line(strokeWidth=2.5).encode(
        strokeDash=alt.StrokeDash("line:N", scale=dashes, legend=None)
    )
    touch = base.mark_point(size=90, opacity=0, filled=True).encode(
        tooltip=tips(
            ("line:N", "line"),
            ("told:Q", across, ".4~%" if odds else "," if whole else ".3~g"),
            ("y:Q", up, ".3~g"),
        )
    )
    ends = table.loc[table.groupby("line", sort=False)["x"].idxmax()]
    # The name of a line that stops early is at its end; all other names are in one column on the right.
    right = float(table["x"].max())
    early = ends["x"] < right - 0.1 * float(np.ptp(table["x"]))
    labels = ends.assign(
        x=ends["x"].where(early, right),
        y=_apart(ends["y"].to_numpy(float), low, high, log),
        ink=[readable(CATEGORIES[names.index(name)]) for name in ends["line"]],
    )
    written = (
        alt.Chart(labels)
        .mark_text(align="left", dx=8, fontWeight="bold")
        .encode(x=x, y=y, text="line:N", fill=alt.Fill("ink:N", scale=None))
    )
    layers = [lines, touch, written]
    if dots:
        layers.insert(1, base.mark_point(size=40, opacity=1, filled=True, aria=False))
    details = []
    for name in names:
        heights = table[table["line"] == name].sort_values("x")["y"].tolist()
        details.append(f"{name}: {heights[0]:.3g} to {heights[-1]:.3g}")
    subtitle = f"A dot and a number mark the {mark} point of a line." if mark else ""
    if mark:
        heights_of = table.groupby("line", sort=False)["y"]
        points = table.loc[heights_of.idxmax() if mark == "highest" else heights_of.idxmin()]
        points = points[points["x"] < right]
        numbers = points["told"].map(_percent) if odds else points["y"].map("{:.2g}".format)
        details += [f"{p.line} is {mark} at {p.told:,.5g}, with {p.y:.3g}" for p in points.itertuples()]
        at = alt.Chart(points.assign(number=numbers)).encode(x=x, y=y)
        layers.append(at.mark_point(size=75, opacity=1, filled=True, aria=False).encode(color=colour))
        # A peak's number is above the falling part of its line, and a minimum's number below the line.
        number = {"align": "left", "dx": 5, "dy": -12} if mark == "highest" else {"dy": 15}
        layers.append(at.mark_text(aria=False, **number).encode(text="number:N"))
    chart = alt.LayerChart(layer=layers, width=WIDTH - NAME_ROOM, height=HEIGHT)
    described = f"{up} against {across}, from left to right. {'; '.join(details)}."
    return captioned(chart, title, subtitle, described)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share < 0.985 else f"{share:.2%}"


def _domain(values: Floats, log: bool) -> tuple[float, float]:
    """Return the ends of the y axis: the lowest and the highest value, with a small margin.

    If all values are equal, the axis also contains 0, and extends to 1 if the values are 0.
    """
    if log:
        low, high = math.log10(values.min()), math.log10(values.max())
        room = 0.04 * max(high - low, 0.5)
        return 10 ** (low - room), 10 ** (high + room)
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = min(low, 0.0), max(high, 0.0) or 1.0
    room = 0.05 * (high - low)
    return low - room, high + room


def _apart(values: Floats, low: float, high: float, log: bool) -> list[float]:
    """Return the heights of the names of lines that end at `values`, moved so that no two names overlap."""
    height_of: Callable[[float], float] = math.log10 if log else float
    step = (height_of(high) - height_of(low)) * NAME_HEIGHT / HEIGHT
    order = sorted(range(len(values)), key=lambda index: values[index])
    heights = [height_of(float(values[index])) for index in order]
    for upper in range(1, len(heights)):
        heights[upper] = max(heights[upper], heights[upper - 1] + step)
    # If the topmost name is pushed beyond the top, it pushes the others down.
    heights[-1] = min(heights[-1], height_of(high))
    for lower in reversed(range(len(heights) - 1)):
        heights[lower] = min(heights[lower], heights[lower + 1] - step)
    moved = dict(zip(order, heights, strict=True))
    return [10 ** moved[index] if log else moved[index] for index in range(len(values))]
