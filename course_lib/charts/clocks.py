"""An offset as a rotation: pairs of columns as the hands of clocks, at two positions."""

import math
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Floats, Numbers, from_tensor
from course_lib.charts.colours import ALARM_INK, CATEGORIES, LINE, QUIET_INK
from course_lib.charts.theme import WIDTH, Picture, panel_title

POSITION = "clock_position"
MOST, GAP, REACH = 4, 14, 1.3
"""How many clocks there are at most, the pixels between two, and how far the picture of each reaches."""

FACE = [
    {"sine": math.sin(angle), "cosine": math.cos(angle), "order": angle}
    for angle in np.linspace(0, 2 * math.pi, 73).tolist()
]


def clock_hands(
    table: Numbers,
    pairs: Sequence[int],
    offset: int,
    *,
    start: int = 0,
    title: str = "A step of the same size turns each hand by the same angle, wherever it starts",
) -> Picture:
    """One clock a pair, with the hands of two positions, `offset` apart, and a slider for the first.

    `table` is (L, D); pair i is the columns 2i (how far right the tip of the hand is) and 2i + 1 (how far
    up): position 0 stands at twelve, and later positions go round clockwise. The arc says by how much the
    second hand is ahead, less whole turns. `pairs` names four at most. The slider goes from 0 to
    L - 1 - offset and begins at `start`. Raises ValueError for pairs, offsets or starts outside the table.
    """
    points = from_tensor(table, "table", (2,))
    last = len(points) - 1 - offset
    _check(points, pairs, offset, start, last)
    slider = alt.param(
        name=POSITION,
        value=start,
        bind=alt.binding_range(min=0, max=last, step=1, name="The first position: "),
    )
    side = (WIDTH - GAP * (MOST - 1)) // MOST
    clocks = [_clock(_hands(points, pair, offset), pair, side) for pair in pairs]
    told = []
    for pair in pairs:
        turn = _turn(points[start], points[start + offset], pair)
        told.append(f"columns {2 * pair} and {2 * pair + 1} by {turn:.0f} degrees")
    words = f"Blue: the hands at one position. Orange, dashed: {offset} positions later."
    return (
        alt.hconcat(*clocks, spacing=GAP)
        .add_params(slider)
        .properties(
            title=alt.Title(title, subtitle=words),
            description=f"{title}. From position {start} to {start + offset}: {', '.join(told)}.",
        )
    )


def _check(points: Floats, pairs: Sequence[int], offset: int, start: int, last: int) -> None:
    if not np.isfinite(points).all():
        raise ValueError("table: expected finite numbers, got NaN or infinity. Look at its rows first.")
    there = points.shape[1] // 2
    if not 1 <= len(pairs) <= MOST or not all(0 <= pair < there for pair in pairs):
        raise ValueError(f"pairs: expected one to {MOST} numbers from 0 to {there - 1}, got {list(pairs)}.")
    if offset < 1 or last < 0:
        raise ValueError(f"offset: expected 1 to {len(points) - 1}, what the table has, got {offset}.")
    if not 0 <= start <= last:
        raise ValueError(f"start: expected 0 to {last}, so that the offset stays inside, got {start}.")


def _turn(here: Floats, there: Floats, pair: int) -> float:
    """By how many degrees, clockwise, the second hand is ahead of the first."""
    angles = [math.atan2(row[2 * pair], row[2 * pair + 1]) for row in (here, there)]
    return math.degrees(angles[1] - angles[0]) % 360


def _hands(points: Floats, pair: int, offset: int) -> pd.DataFrame:
    """One row for each first position: the tips of both hands, and the arc between them."""
    rows = []
    for position in range(len(points) - offset):
        here, there = points[position], points[position + offset]
        turn = _turn(here, there, pair)
        rows.append(
            {
                "position": position,
                "later": position + offset,
                "sine": round(here[2 * pair], 4),
                "cosine": round(here[2 * pair + 1], 4),
                "later sine": round(there[2 * pair], 4),
                "later cosine": round(there[2 * pair + 1], 4),
                "begins": math.atan2(here[2 * pair], here[2 * pair + 1]),
                "turn": math.radians(turn),
                "told": f"turned by {turn:.0f}°",
                "centre": 0.0,
            }
        )
    return pd.DataFrame(rows)


def _clock(hands: pd.DataFrame, pair: int, side: int) -> alt.LayerChart:
    scale = alt.Scale(domain=[-REACH, REACH], nice=False)

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=scale, axis=None)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=scale, axis=None)

    face = (
        alt.Chart(alt.Data(values=FACE))
        .mark_line(color=LINE, strokeWidth=1.5)
        .encode(x=x("sine"), y=y("cosine"), order="order:Q")
    )
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
    told = shown.mark_text(color=QUIET_INK, fontSize=12).encode(
        x=alt.value(side / 2), y=alt.value(side - 4), text="told:N"
    )
    layers: list[alt.Chart] = [face, arc, told]
    for prefix, number, colour, ink, dash in (
        ("later ", "later", CATEGORIES[1], ALARM_INK, [5, 3]),
        ("", "position", CATEGORIES[0], CATEGORIES[0], [1, 0]),
    ):
        sine, cosine = f"{prefix}sine", f"{prefix}cosine"
        hand = shown.mark_rule(color=colour, strokeWidth=3, strokeDash=dash).encode(
            x=x("centre"), y=y("centre"), x2=f"{sine}:Q", y2=f"{cosine}:Q"
        )
        tip = shown.mark_point(filled=True, size=60, opacity=1, color=colour).encode(
            x=x(sine),
            y=y(cosine),
            tooltip=[
                alt.Tooltip(f"{number}:Q", title="position"),
                alt.Tooltip(f"{sine}:Q", title=f"column {2 * pair}", format=".4~f"),
                alt.Tooltip(f"{cosine}:Q", title=f"column {2 * pair + 1}", format=".4~f"),
            ],
        )
        # Beside the tip, away from the other hand: at a small angle the numbers would cover each other.
        angle = "datum.begins + datum.turn + 0.13" if prefix else "datum.begins - 0.13"
        name = (
            shown.transform_calculate(right=f"1.17 * sin({angle})", upward=f"1.17 * cos({angle})")
            .mark_text(fontWeight="bold", color=ink)
            .encode(x=x("right"), y=y("upward"), text=f"{number}:Q")
        )
        layers += [hand, tip, name]
    return alt.LayerChart(layer=layers, width=side, height=side).properties(
        title=panel_title(f"columns {2 * pair} and {2 * pair + 1}")
    )
