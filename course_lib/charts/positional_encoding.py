"""The charts of lesson 05: the sinusoids as waves, as a heat map and as clock hands."""

import math
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.inputs import Floats, Numbers, from_tensor
from course_lib.charts.marks import (
    Shades,
    captioned,
    exact,
    fixed_x,
    fixed_y,
    note,
    panel_title,
    series,
    tips,
)
from course_lib.charts.theme import ALARM_INK, CATEGORIES, LINE, QUIET_INK, WIDTH, Picture


def position_waves(table: Numbers, pairs: Sequence[int]) -> Picture:
    """Draw a row for each pair of columns: a solid line for the even column and a dashed one for the odd one.

    `table` is (L, D) with two or more positions, which are marked by dots. `pairs` selects the pairs to draw;
    pair i consists of the columns 2i and 2i + 1. Next to each row is the number of positions in a full turn,
    computed from the angle between the first two positions. Raises ValueError for fewer than two positions,
    no pairs, a pair that the table doesn't have, or numbers that aren't finite.
    """
    waves = from_tensor(table, "table", (2,), finite=True)
    if len(waves) < 2:
        raise ValueError(f"table: expected two or more positions, got the shape {waves.shape}.")
    there = waves.shape[1] // 2
    if not pairs or not all(0 <= pair < there for pair in pairs):
        raise ValueError(f"pairs: expected one or more numbers from 0 to {there - 1}, got {list(pairs)}.")
    rows, details = [], []
    for number, pair in enumerate(pairs, start=1):
        turn = _positions_a_turn(waves, pair)
        rows.append(_wave(waves, pair, turn, last=number == len(pairs)))
        details.append(f"columns {2 * pair} and {2 * pair + 1}: a full turn in {turn}")
    chart = alt.vconcat(*rows, spacing=8)
    return captioned(
        chart,
        "Every pair of columns is a wave, and each is slower than the one before",
        "",
        f"{len(waves)} positions; {'; '.join(details)}.",
    )


def _positions_a_turn(waves: Floats, pair: int) -> str:
    first, second = (math.atan2(row[2 * pair], row[2 * pair + 1]) for row in waves[:2])
    angle = (second - first) % (2 * math.pi)
    if min(angle, 2 * math.pi - angle) < 1e-12:
        return "infinitely many positions"
    turn = 2 * math.pi / angle
    return f"{turn:.1f} positions" if turn < 99.95 else f"{turn:,.0f} positions"


def _wave(waves: Floats, pair: int, turn: str, *, last: bool) -> alt.LayerChart:
    columns, kinds, width = (2 * pair, 2 * pair + 1), ("even column", "odd column"), WIDTH - 200
    lines = pd.DataFrame(
        {
            "position": np.tile(np.arange(len(waves)), 2),
            "column": np.repeat(columns, len(waves)),
            "kind": np.repeat(kinds, len(waves)),
            "value": waves[:, columns].T.ravel().round(5),
        }
    )
    legend = alt.Legend(title=None, orient="top", symbolType="stroke", symbolStrokeWidth=3, symbolSize=500)
    colour, dash = series("kind:N", kinds, legend)
    across = alt.Axis(title="position" if last else None, labels=last, ticks=last, grid=False, tickMinStep=1)
    base = alt.Chart(lines).encode(
        x=fixed_x("position", 0, len(waves) - 1, across),
        y=fixed_y("value", -1.08, 1.08, alt.Axis(title=None, values=[-1, 0, 1], format="d")),
        color=colour,
    )
    line = base.mark_line(strokeWidth=1.8, interpolate="monotone").encode(strokeDash=dash)
    dots = base.mark_point(filled=True, size=14, opacity=1).encode(
        tooltip=tips(("position:Q", "position"), ("column:Q", "column"), ("value:Q", "value", ".4~f"))
    )
    names = [
        note(f"columns {columns[0]}, {columns[1]}", width + 12, 22, bold=True),
        note(f"a turn in {turn}", width + 12, 40),
    ]
    return alt.LayerChart(layer=[line, dots, *names], width=width, height=58)


def number_field(values: Numbers, *, rows: str, columns: str, title: str) -> Picture:
    """Draw a table of up to 5,000 finite numbers as a heat map; a tooltip shows each number.

    `values` is (R, C). `rows` and `columns` are the titles of the axes; rows and columns are numbered from 0.
    Negative numbers are brown and positive numbers blue; if none is negative, the shades start at white.
    Raises ValueError for more than 5,000 numbers, or for numbers that aren't finite.
    """
    largest = 5_000
    field = from_tensor(values, "values", (2,), finite=True)
    if field.size > largest:
        raise ValueError(f"values: expected at most {largest:,} numbers, got {field.size:,}. Show a part.")
    height, width = field.shape
    widest, tallest = WIDTH - 130, 360
    # Whole numbers of pixels give cells sharp edges. A long row or column needs cells below one pixel.
    across = min(16, widest // width) or widest / width
    down = min(across if height > width else 16, tallest // height) or tallest / height
    shades = Shades.spanning(field)
    row, column = np.indices(field.shape)
    table = pd.DataFrame({"row": row.ravel(), "column": column.ravel(), "value": field.ravel().round(4)})
    cells = (
        alt.Chart(table)
        .mark_rect(aria=False)
        .encode(
            x=alt.X("column:O", title=columns, axis=_numbered(width, across, "top")),
            y=alt.Y("row:O", title=rows, axis=_numbered(height, down, "left")),
            fill=shades.fill("value", "value"),
            tooltip=tips(("row:O", rows), ("column:O", columns), ("value:Q", "value", ".4~g")),
        )
    )
    ends = f"{exact(float(field.min()))} to {exact(float(field.max()))}"
    # Use a layered chart, whose title is aligned with the picture instead of the cells.
    chart = alt.LayerChart(layer=[cells], width=across * width, height=down * height)
    details = f"{height} rows ({rows}) by {width} columns ({columns}); value from {ends}."
    return captioned(chart, title, "", details)


def _numbered(count: int, step: float, orient: str) -> alt.Axis:
    """Return an axis with `count` indices, `step` pixels apart, labelled with as many numbers as fit."""
    every = next(every for every in (1, 2, 4, 8, 16, 32, 64, 128, 10_000) if every * step >= 22)
    values = list(range(0, count, every))
    return alt.Axis(values=values, labelAngle=0, orient=orient, ticks=False, domain=False, grid=False)  # type: ignore[arg-type]


POSITION = "clock_position"
"""The name of the slider's parameter."""


def clock_hands(
    table: Numbers,
    pairs: Sequence[int],
    offset: int,
    *,
    start: int = 0,
) -> Picture:
    """Draw a clock for each pair of columns, with hands for two positions and a slider for the first.

    `table` is (L, D). Pair i consists of the columns 2i and 2i + 1, which are the horizontal and the vertical
    coordinate of a hand's tip, so that position 0 points to twelve and later positions follow clockwise. The
    arc shows the angle from the first hand to the hand `offset` positions later, modulo 360 degrees. `pairs`
    holds one to four pairs. The slider goes from 0 to L - 1 - offset and begins at `start`. Raises ValueError
    for pairs, an offset or a start outside the table, for no pairs or more than four, and for numbers that
    aren't finite.
    """
    points = from_tensor(table, "table", (2,), finite=True)
    maximum, there, last = 4, points.shape[1] // 2, len(points) - 1 - offset
    if not 1 <= len(pairs) <= maximum or not all(0 <= pair < there for pair in pairs):
        raise ValueError(f"pairs: expected 1 to {maximum} numbers from 0 to {there - 1}, got {list(pairs)}.")
    if offset < 1 or last < 0:
        raise ValueError(f"offset: expected 1 to {len(points) - 1}, within the table, got {offset}.")
    if not 0 <= start <= last:
        raise ValueError(f"start: expected 0 to {last}, so that start + offset is in the table, got {start}.")
    handle = alt.binding_range(min=0, max=last, step=1, name="The first position: ")
    gap = 14
    clocks, details = [], []
    for pair in pairs:
        # `angle` is the angle of each position's hand, clockwise from twelve, in radians. `turn` is the angle
        # from a hand to the later one, in degrees.
        angle = np.arctan2(points[:, 2 * pair], points[:, 2 * pair + 1])
        turn = np.degrees(angle[offset:] - angle[:-offset]) % 360
        clocks.append(_clock(points, pair, angle[:-offset], turn, (WIDTH - gap * (maximum - 1)) // maximum))
        details.append(f"columns {2 * pair} and {2 * pair + 1} by {turn[start]:.0f} degrees")
    subtitle = f"Blue: the hand at the first position. Orange, dashed: {offset} positions later."
    slider = alt.param(name=POSITION, value=start, bind=handle)
    return captioned(
        alt.hconcat(*clocks, spacing=gap).add_params(slider),
        "The same offset turns each hand by the same angle, wherever it starts",
        subtitle,
        f"From position {start} to {start + offset}: {', '.join(details)}.",
    )


def _clock(points: Floats, pair: int, angle: Floats, turn: Floats, side: int) -> alt.LayerChart:
    offset = len(points) - len(turn)
    here, there = points[:-offset], points[offset:]
    hands = pd.DataFrame(
        {
            "position": np.arange(len(here)),
            "later": np.arange(len(here)) + offset,
            "sine": here[:, 2 * pair].round(4),
            "cosine": here[:, 2 * pair + 1].round(4),
            "later sine": there[:, 2 * pair].round(4),
            "later cosine": there[:, 2 * pair + 1].round(4),
            "begins": angle,
            "turn": np.radians(turn),
            "details": [f"turned by {degrees:.0f}°" for degrees in turn],
            "centre": 0.0,
        }
    )
    reach = 1.3

    def x(field: str) -> alt.X:
        return fixed_x(field, -reach, reach)

    def y(field: str) -> alt.Y:
        return fixed_y(field, -reach, reach)

    rim = np.linspace(0, 2 * math.pi, 73)
    circle = pd.DataFrame({"sine": np.sin(rim), "cosine": np.cos(rim), "order": rim})
    face = alt.Chart(circle).mark_line(color=LINE, strokeWidth=1.5)
    shown = alt.Chart(hands).transform_filter(f"datum.position === {POSITION}")
    arc = (
        shown.transform_calculate(steps="sequence(0, 1.0001, 0.05)")
        .transform_flatten(["steps"])
        .transform_calculate(
            sine="0.4 * sin(datum.begins + datum.steps * datum.turn)",
            cosine="0.4 * cos(datum.begins + datum.steps * datum.turn)",
        )
        .mark_line(color=QUIET_INK, strokeWidth=2)
        .encode(x=x("sine"), y=y("cosine"), order="steps:Q")
    )
    details = shown.mark_text(color=QUIET_INK).encode(
        x=alt.value(side / 2), y=alt.value(side + 6), text="details:N"
    )
    layers = [face.encode(x=x("sine"), y=y("cosine"), order="order:Q"), arc, details]
    for prefix, number, colour, ink, dash in (
        ("later ", "later", CATEGORIES[1], ALARM_INK, [5, 3]),
        ("", "position", CATEGORIES[0], CATEGORIES[0], [1, 0]),
    ):
        sine, cosine = f"{prefix}sine", f"{prefix}cosine"
        hand = shown.mark_rule(color=colour, strokeWidth=3, strokeDash=dash)
        tip = shown.mark_point(filled=True, size=60, opacity=1, color=colour)
        columns = (
            (f"{sine}:Q", f"column {2 * pair}", ".4~f"),
            (f"{cosine}:Q", f"column {2 * pair + 1}", ".4~f"),
        )
        # Write the numbers on the outer sides of the hands: between the hands, they would overlap at small
        # angles.
        beside = "datum.begins + datum.turn + 0.13" if prefix else "datum.begins - 0.13"
        name = shown.transform_calculate(right=f"1.17 * sin({beside})", up=f"1.17 * cos({beside})")
        layers += [
            hand.encode(x=x("centre"), y=y("centre"), x2=f"{sine}:Q", y2=f"{cosine}:Q"),
            tip.encode(x=x(sine), y=y(cosine), tooltip=tips((f"{number}:Q", "position"), *columns)),
            name.mark_text(fontWeight="bold", color=ink).encode(x=x("right"), y=y("up"), text=f"{number}:Q"),
        ]
    title = panel_title(f"columns {2 * pair} and {2 * pair + 1}")
    return alt.LayerChart(layer=layers, width=side, height=side).properties(title=title)
