"""A matrix drawn as coloured cells: the ground on which the heat maps stand.

Colour never stands alone: a cell says its value as text where it is large enough, a masked cell carries a
cross, and a cell that holds no number is black and says what it holds.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import altair as alt
import numpy as np
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
LEAK_NOTE = "Orange cells with !: masked, yet they are not zero."
NO_NUMBER_NOTE = "Black cells hold no number: N is NaN, ∞ is infinity."


@dataclass(frozen=True)
class Shades:
    """How numbers become colours: from `low` to `high` along `ramp`; beyond, the end's colour."""

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

    def legend(self) -> alt.Legend:
        """A strip of the ramp with its two ends and its middle."""
        ends = [self.low, (self.low + self.high) / 2, self.high]
        return alt.Legend(values=ends, format=".3~g", gradientLength=110, gradientThickness=12)


WEIGHT_SHADES = Shades(0.0, 1.0, AMOUNTS)
"""Attention weights lie between 0 and 1, and equal weights have equal colours in every picture."""


def short(value: float) -> str:
    """A number in about three signs: 0.42, -1.30, 12.5, 1e+9; whole ones without a point."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    size = abs(value)
    if value.is_integer() and size < 10_000:
        return f"{int(value)}"
    if size < 0.0005 or size >= 9999.5:
        return f"{value:.0e}".replace("e+0", "e+").replace("e-0", "e-")
    return f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:.0f}"


def hundredths(value: float) -> str:
    """A weight with two digits after the point; exact zero is a plain 0, to be told from very little."""
    return f"{value:.2f}" if math.isfinite(value) and value != 0 else short(value)


def exact(value: float) -> str:
    """A number in seven significant digits, for tooltips."""
    return short(value) if not math.isfinite(value) else f"{value:.7g}"


def cell_size(columns: int, room: int, largest: int = 44) -> int:
    """Pixels for a cell's side so that `columns` of them fit into `room`."""
    return max(6, min(largest, room // columns))


@dataclass(frozen=True)
class Grid:
    """A matrix on paper: the words of its rows and columns, the side of a cell in pixels, and what rows,
    columns and values are called.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    cell: int
    names: tuple[str, str, str] = ("row", "column", "value")

    @property
    def has_room(self) -> bool:
        """Whether a value can be written into a cell."""
        return self.cell >= ROOM_FOR_TEXT

    def table(
        self,
        values: Floats,
        shades: Shades,
        mask: Booleans | None = None,
        write: Callable[[float], str] = short,
    ) -> pd.DataFrame:
        """One table row a cell: where it lies, what it holds, what is written into it and in which colours.

        Cells where `mask` is False are crossed out; one that holds something other than zero is marked as a
        leak. `write` says how a value is written into a cell that has room for it.
        """
        looks = [
            _look(
                float(value),
                shades,
                write if self.has_room else None,
                masked=mask is not None and not mask[place],
            )
            for place, value in np.ndenumerate(values)
        ]
        table = pd.DataFrame(looks)
        table["row"], table["column"] = (place.ravel() for place in np.indices(values.shape))
        table["row name"] = [self.rows[row] for row in table["row"]]
        table["column name"] = [self.columns[column] for column in table["column"]]
        return table

    def draw(
        self,
        table: pd.DataFrame,
        *,
        ramp: Shades | None = None,
        row_labels: bool = True,
        column_labels: bool = True,
    ) -> alt.LayerChart:
        """The cells of a table as a chart with words along its axes; with `ramp`, a legend of its colours."""
        row_name, column_name, value_name = self.names
        base = alt.Chart(table).encode(
            x=alt.X(
                "column:O",
                title=column_name,
                scale=alt.Scale(domain=list(range(len(self.columns)))),
                axis=word_axis(self.columns, self.cell, orient="top") if column_labels else None,
            ),
            y=alt.Y(
                "row:O",
                title=row_name,
                scale=alt.Scale(domain=list(range(len(self.rows)))),
                axis=word_axis(self.rows, self.cell, orient="left") if row_labels else None,
            ),
            tooltip=[
                alt.Tooltip("row name:N", title=row_name),
                alt.Tooltip("column name:N", title=column_name),
                alt.Tooltip("told:N", title=value_name),
            ],
        )
        # Hundreds of spoken cells help nobody and weigh; the chart's description tells a large picture.
        boxes = base.mark_rect(stroke="white", strokeWidth=1 if self.cell > 12 else 0.5, aria=self.has_room)
        plain = boxes.encode(color=alt.Color("fill:N", scale=None))
        layers = [plain]
        if ramp is not None:
            on_ramp = alt.Fill("value:Q", title=value_name, scale=ramp.scale(), legend=ramp.legend())
            layers = [
                boxes.encode(fill=on_ramp).transform_filter("datum.kind === 'number'"),
                plain.transform_filter("datum.kind !== 'number'"),
            ]
        size = max(7, min(12, int(self.cell * (0.32 if self.has_room else 0.8))))
        text = (
            base.mark_text(fontSize=size, aria=False)
            .encode(text="shown:N", color=alt.Color("ink:N", scale=None, legend=None))
            .transform_filter("datum.shown !== ''")
        )
        return alt.LayerChart(
            layer=[*layers, text], width=self.cell * len(self.columns), height=self.cell * len(self.rows)
        )


def _look(
    value: float, shades: Shades, write: Callable[[float], str] | None, *, masked: bool
) -> dict[str, str | float | None]:
    """What a cell holds and how it looks; without `write` there is room for a sign only."""
    look: dict[str, str | float | None] = {"value": None, "told": exact(value)}
    if masked and value == 0:
        return look | {
            "kind": "masked",
            "fill": MASKED_FILL,
            "ink": MASKED_INK,
            "shown": "×",
            "told": "masked",
        }
    if masked:
        shown, told = (f"{write(value)}!" if write else "!"), f"{exact(value)}, although masked"
        return look | {"kind": "leak", "fill": ALARM_FILL, "ink": ALARM_INK, "shown": shown, "told": told}
    if not math.isfinite(value):
        shown = short(value) if write else short(value).replace("NaN", "N")
        return look | {"kind": "no number", "fill": NO_NUMBER_FILL, "ink": "#ffffff", "shown": shown}
    fill, shown = shades.colour(value), write(value) if write else ""
    return look | {"kind": "number", "value": value, "fill": fill, "ink": ink_on(fill), "shown": shown}


def word_axis(words: Sequence[str], step: int, *, orient: Literal["top", "bottom", "left"]) -> alt.Axis:
    """An axis with a word at each index, `step` pixels apart; words may repeat, long ones are turned."""
    size = max(8, min(12, step))
    angle = 0
    if orient != "left" and any(len(word) * 0.6 * size > step for word in words):
        angle = -45 if step >= 24 else -90
    aligned: Literal["left", "center", "right"] = "center"
    if orient == "left" or (angle and orient == "bottom"):
        aligned = "right"
    elif angle:
        aligned = "left"
    return alt.Axis(
        labelExpr=f"{json.dumps(list(words))}[datum.value]",
        labelAngle=angle,
        labelAlign=aligned,
        labelBaseline="middle" if angle == -90 or orient == "left" else alt.Undefined,
        labelFontSize=size,
        labelOverlap=step < 9,
        labelPadding=4,
        labelLimit=140,
        orient=orient,
        domain=False,
        ticks=False,
        grid=False,
    )


def notes_on(frame: pd.DataFrame) -> list[str]:
    """The lines that explain the special cells which really occur."""
    lines = {"masked": MASKED_NOTE, "leak": LEAK_NOTE, "no number": NO_NUMBER_NOTE}
    kinds = set(frame["kind"])
    return [line for kind, line in lines.items() if kind in kinds]
