"""A matrix drawn as coloured cells: the ground on which the heat maps stand.

Colour never stands alone: a cell says its value as text where it is large enough, a masked cell carries a cross,
and a cell that holds no number is black and says what it holds.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import pandas as pd

from course_lib.charts.arrays import Booleans, Floats
from course_lib.charts.colours import (
    ALARM_FILL,
    ALARM_INK,
    AMOUNTS,
    MASKED_FILL,
    MASKED_INK,
    NO_NUMBER_FILL,
    SIGNED,
    ink_on,
    on_ramp,
)

ROOM_FOR_TEXT = 28
"""Pixels a cell needs across before a value is written into it."""

MASKED_NOTE = "×: masked, the query may not look there."
LEAK_NOTE = "Orange cells with !: masked, yet they got weight."
NO_NUMBER_NOTE = "Black cells hold no number: N is NaN, ∞ is infinity."


@dataclass(frozen=True)
class Shades:
    """How numbers become colours: from `low` to `high` along `ramp`; what lies beyond takes the end's colour."""

    low: float
    high: float
    ramp: Sequence[str]

    @classmethod
    def spanning(cls, *matrices: Floats, at_most: float = math.inf) -> "Shades":
        """Shades for all finite values: signed around zero if any is negative, else from zero upwards."""
        values = [value for matrix in matrices for value in matrix.ravel().tolist() if math.isfinite(value)]
        end = min(max((abs(value) for value in values), default=0.0), at_most) or 1.0
        return cls(-end, end, SIGNED) if min(values, default=0.0) < 0 else cls(0.0, end, AMOUNTS)

    def colour(self, value: float) -> str:
        """The colour of a finite value."""
        return on_ramp(self.ramp, (value - self.low) / (self.high - self.low))

    def scale(self) -> alt.Scale:
        """The same as a Vega-Lite scale."""
        return alt.Scale(domain=[self.low, self.high], range=list(self.ramp), clamp=True)


WEIGHT_SHADES = Shades(0.0, 1.0, AMOUNTS)
"""Attention weights lie between 0 and 1, and equal weights have equal colours in every picture."""


def short(value: float) -> str:
    """A number in about three signs: 0.42, -1.3, 12, 1e+09; exact zero is a plain 0."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    size = abs(value)
    if size < 0.0005 or size >= 9999.5:
        return f"{value:.0e}".replace("e+0", "e+").replace("e-0", "e-")
    return f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:.0f}"


def exact(value: float) -> str:
    """A number in seven significant digits, for tooltips."""
    return short(value) if not math.isfinite(value) else f"{value:.7g}"


def cell_size(columns: int, room: int, largest: int = 44) -> int:
    """Pixels for a cell's side so that `columns` of them fit into `room`."""
    return max(6, min(largest, room // columns))


def grid_frame(
    values: Floats,
    rows: Sequence[str],
    columns: Sequence[str],
    shades: Shades,
    cell: int,
    mask: Booleans | None = None,
    note: str = "",
) -> pd.DataFrame:
    """One table row a cell of a (rows, columns) matrix: where it lies, what it holds, what is written and how.

    Cells where `mask` is False are crossed out; one that holds something other than zero is marked as a leak.
    `note` follows the value in the tooltip.
    """
    frame = []
    for r, row in enumerate(rows):
        for c, column in enumerate(columns):
            value = float(values[r, c])
            kind, fill, ink, shown = _look(value, shades, cell, masked=mask is not None and not bool(mask[r, c]))
            told = f"{exact(value)}{note}" + {"masked": ", masked", "leak": ", although masked"}.get(kind, "")
            frame.append(
                {
                    "row": r,
                    "column": c,
                    "row name": row,
                    "column name": column,
                    "value": value if kind == "number" else None,
                    "kind": kind,
                    "fill": fill,
                    "ink": ink,
                    "shown": shown,
                    "told": told,
                }
            )
    return pd.DataFrame(frame)


def _look(value: float, shades: Shades, cell: int, *, masked: bool) -> tuple[str, str, str, str]:
    """Kind, fill, ink and text of a cell."""
    wide = cell >= ROOM_FOR_TEXT
    if masked and value == 0:
        return "masked", MASKED_FILL, MASKED_INK, "×"
    if masked:
        return "leak", ALARM_FILL, ALARM_INK, f"{short(value)}!" if wide else "!"
    if not math.isfinite(value):
        return "no number", NO_NUMBER_FILL, "#ffffff", short(value) if wide else short(value)[:2].replace("Na", "N")
    fill = shades.colour(value)
    return "number", fill, ink_on(fill), short(value) if wide else ""


def grid_layers(
    frame: pd.DataFrame,
    rows: Sequence[str],
    columns: Sequence[str],
    cell: int,
    *,
    shades: Shades | None,
    names: tuple[str, str, str] = ("row", "column", "value"),
    legend: bool = True,
    row_labels: bool = True,
) -> alt.LayerChart:
    """The cells of `grid_frame` as a chart, with words along the axes.

    `names` says what a row, a column and a value are. Without `shades` the cells take the colour of the "fill" column.
    """
    row_name, column_name, value_name = names
    x = alt.X(
        "column:O",
        title=column_name,
        scale=alt.Scale(domain=list(range(len(columns)))),
        axis=word_axis(columns, cell, across=True),
    )
    y = alt.Y(
        "row:O",
        title=row_name,
        scale=alt.Scale(domain=list(range(len(rows)))),
        axis=word_axis(rows, cell, across=False) if row_labels else None,
    )
    base = alt.Chart(frame).encode(
        x=x,
        y=y,
        tooltip=[
            alt.Tooltip("row name:N", title=row_name),
            alt.Tooltip("column name:N", title=column_name),
            alt.Tooltip("told:N", title=value_name),
        ],
    )
    boxes = base.mark_rect(stroke="white", strokeWidth=1 if cell > 12 else 0.5)
    plain = boxes.encode(color=alt.Color("fill:N", scale=None))
    layers: list[alt.Chart] = [plain]
    if shades is not None:
        colour = alt.Color(
            "value:Q",
            scale=shades.scale(),
            title=value_name,
            legend=alt.Legend(gradientLength=110, gradientThickness=12, tickCount=4) if legend else None,
        )
        layers = [
            boxes.encode(color=colour).transform_filter("datum.kind === 'number'"),
            plain.transform_filter("datum.kind !== 'number'"),
        ]
    longest = max(map(len, frame["shown"]), default=1)
    size = max(7, min(12, int(cell * 1.6 / max(longest, 2))))
    text = base.mark_text(fontSize=size, aria=False).encode(
        text="shown:N", color=alt.Color("ink:N", scale=None, legend=None)
    )
    return alt.layer(*layers, text).properties(width=cell * len(columns), height=cell * len(rows))


def word_axis(words: Sequence[str], step: int, *, across: bool) -> alt.Axis:
    """An axis that writes a word at each index; words may repeat. Long words across are turned upright."""
    fits = all(len(word) * 7 <= step for word in words)
    turned = {"labelAngle": -45 if not fits else 0, "labelAlign": "left" if not fits else "center", "orient": "top"}
    return alt.Axis(
        labelExpr=f"{json.dumps(list(words))}[datum.value]",
        domain=False,
        ticks=False,
        grid=False,
        labelPadding=4,
        labelOverlap=True,
        labelLimit=140,
        **(turned if across else {}),
    )


def notes_on(frame: pd.DataFrame) -> list[str]:
    """The lines that explain the special cells which really occur."""
    lines = {"masked": MASKED_NOTE, "leak": LEAK_NOTE, "no number": NO_NUMBER_NOTE}
    kinds = set(frame["kind"])
    return [line for kind, line in lines.items() if kind in kinds]
