"""The sinusoids as waves: pairs of columns against the position."""

import math
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Floats, Numbers, from_tensor
from course_lib.charts.colours import CATEGORIES, QUIET_INK
from course_lib.charts.theme import WIDTH, Picture

ROW, GAP = 58, 8
SIDE_ROOM = 200
"""Pixels: the height of a wave, what is free between two, and what is kept for the words beside them."""

KINDS = ("even column", "odd column")


def position_waves(
    table: Numbers,
    pairs: Sequence[int],
    *,
    title: str = "Every pair of columns is a wave, and each is slower than the one before",
) -> Picture:
    """One row for each pair: its even column as a line, its odd column as a dashed one, a dot a position.

    `table` is (L, D) with two positions or more; pair i is the columns 2i and 2i + 1. Beside each row
    stands how many positions a full turn takes, from the angle between the first two positions. Raises
    ValueError for a pair that the table does not have, or numbers that aren't finite.
    """
    waves = _checked(table, pairs)
    lengths = [_positions_a_turn(waves, pair) for pair in pairs]
    rows = [
        _row(waves, pair, length, last=place == len(pairs) - 1)
        for place, (pair, length) in enumerate(zip(pairs, lengths, strict=True))
    ]
    told = [
        f"columns {2 * pair} and {2 * pair + 1}: a full turn in {length}"
        for pair, length in zip(pairs, lengths, strict=True)
    ]
    return alt.vconcat(*rows, spacing=GAP).properties(
        title=alt.Title(title),
        description=f"{title}. {len(waves)} positions; {'; '.join(told)}.",
    )


def _checked(table: Numbers, pairs: Sequence[int]) -> Floats:
    waves = from_tensor(table, "table", (2,))
    if len(waves) < 2 or not np.isfinite(waves).all():
        raise ValueError(
            f"table: expected two positions or more, all finite, got the shape {waves.shape}"
            f"{'' if np.isfinite(waves).all() else ' with NaN or infinity in it'}."
        )
    there = waves.shape[1] // 2
    if not pairs or not all(0 <= pair < there for pair in pairs):
        raise ValueError(f"pairs: expected some numbers from 0 to {there - 1}, got {list(pairs)}.")
    return waves


def _positions_a_turn(waves: Floats, pair: int) -> str:
    angle = math.atan2(waves[1, 2 * pair], waves[1, 2 * pair + 1]) % (2 * math.pi)
    if angle < 1e-12:
        return "no number of positions"
    turn = 2 * math.pi / angle
    return f"{turn:.1f} positions" if turn < 99.95 else f"{turn:,.0f} positions"


def _row(waves: Floats, pair: int, turn: str, *, last: bool) -> alt.LayerChart:
    columns = (2 * pair, 2 * pair + 1)
    positions = np.arange(len(waves))
    lines = pd.DataFrame(
        {
            "position": np.tile(positions, 2),
            "column": np.repeat(columns, len(waves)),
            "kind": np.repeat(KINDS, len(waves)),
            "value": waves[:, columns].T.ravel().round(5),
        }
    )
    base = alt.Chart(lines).encode(
        x=alt.X(
            "position:Q",
            title="position" if last else None,
            scale=alt.Scale(domain=[0, len(waves) - 1], nice=False),
            axis=alt.Axis(labels=last, ticks=last, grid=False, tickMinStep=1),
        ),
        y=alt.Y(
            "value:Q",
            title=None,
            scale=alt.Scale(domain=[-1.08, 1.08], nice=False),
            axis=alt.Axis(values=[-1, 0, 1], format="d"),
        ),
        color=alt.Color(
            "kind:N",
            scale=alt.Scale(domain=KINDS, range=CATEGORIES[:2]),
            legend=alt.Legend(title=None, orient="top", symbolType="stroke", symbolStrokeWidth=3),
        ),
    )
    line = base.mark_line(strokeWidth=1.8, interpolate="monotone").encode(
        strokeDash=alt.StrokeDash(
            "kind:N", scale=alt.Scale(domain=KINDS, range=[[1, 0], [4, 3]]), legend=None
        )
    )
    dots = base.mark_point(filled=True, size=14, opacity=1).encode(
        tooltip=["position:Q", "column:Q", alt.Tooltip("value:Q", format=".4~f")]
    )
    words = [
        (f"columns {columns[0]}, {columns[1]}", 22, "bold", "black"),
        (f"a turn in {turn}", 40, "normal", QUIET_INK),
    ]
    texts = [
        alt.Chart(pd.DataFrame({"text": [text]}))
        .mark_text(align="left", color=colour, fontWeight=weight)  # type: ignore[arg-type]
        .encode(x=alt.value(WIDTH - SIDE_ROOM + 12), y=alt.value(height), text="text:N")
        for text, height, weight, colour in words
    ]
    return alt.LayerChart(layer=[line, dots, *texts], width=WIDTH - SIDE_ROOM, height=ROW)
