"""The building blocks of several charts: matrices of cells, axes with words, short numbers and tooltips.

Information is never shown by colour alone: a cell contains its value if it is large enough, a masked cell has
a cross, or an exclamation mark if its value isn't zero, and a cell with NaN or infinity is black, with a text
that tells the two apart.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.inputs import Booleans, Floats
from course_lib.charts.theme import (
    ALARM_FILL,
    ALARM_INK,
    AMOUNTS,
    CATEGORIES,
    DASHES,
    INK,
    MASKED_FILL,
    MASKED_INK,
    NO_NUMBER_FILL,
    QUIET_INK,
    SIGNED,
    ink_on,
    on_ramp,
)

ROOM_FOR_TEXT = 28
"""The minimum width, in pixels, of a cell that contains its value as text."""

Write: TypeAlias = Callable[[float], str]

Chart = TypeVar("Chart", bound=alt.TopLevelMixin)


def short(value: float) -> str:
    """Format a number in about four characters: 0.42, -1.30, 12.5, 7, 1e+9, NaN or ∞."""
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
    """Format a weight with two decimals. Only an exact zero becomes "0"; a tiny weight becomes "0.00"."""
    return f"{value:.2f}" if math.isfinite(value) and value != 0 else short(value)


def exact(value: float) -> str:
    """Format a number with up to seven significant digits, for tooltips and descriptions."""
    return short(value) if not math.isfinite(value) else f"{value:.7g}"


@dataclass(frozen=True)
class Shades:
    """A mapping of the numbers from `low` to `high` to colours along `ramp`. Other numbers are clamped."""

    low: float
    high: float
    ramp: Sequence[str]

    @classmethod
    def spanning(cls, *matrices: Floats, at_most: float = math.inf) -> "Shades":
        """Build shades for all finite values: symmetric around zero if any is negative, else from zero.

        The shades extend no further than `at_most`, even if a value is larger.
        """
        values = np.concatenate([matrix[np.isfinite(matrix)] for matrix in matrices])
        end = float(min(np.abs(values).max(initial=0.0), at_most)) or 1.0
        return cls(-end, end, SIGNED) if (values < 0).any() else cls(0.0, end, AMOUNTS)

    def colour(self, value: float) -> str:
        """Return the colour of a finite value."""
        return on_ramp(self.ramp, (value - self.low) / (self.high - self.low))

    def scale(self) -> alt.Scale:
        """Return this mapping as a Vega-Lite scale."""
        return alt.Scale(domain=[self.low, self.high], range=list(self.ramp), clamp=True)

    def fill(self, field: str, title: str | None = None) -> alt.Fill:
        """Return a fill encoding of `field`, whose legend is the ramp, labelled at its ends and middle."""
        ends = [self.low, (self.low + self.high) / 2, self.high]
        legend = alt.Legend(values=ends, format=".3~g", gradientLength=110, gradientThickness=12)
        return alt.Fill(f"{field}:Q", title=title or field, scale=self.scale(), legend=legend)


WEIGHT_SHADES = Shades(0.0, 1.0, AMOUNTS)
"""The shades of attention weights, from 0 to 1: equal weights have equal colours in every picture."""


@dataclass(frozen=True)
class Cell:
    """One cell of a matrix: its colours, the text in it, and the text of its tooltip.

    Cells of kind "number" take their colour from the chart's ramp, if it has one. If `ink` is None, the text
    is black or white, whichever is easier to read on `fill`.
    """

    fill: str
    shown: str = ""
    details: str = ""
    kind: Literal["number", "masked", "leak", "no number", "other"] = "other"
    value: float | None = None
    ink: str | None = None
    framed: bool = False


def number_cell(value: float, shades: Shades, write: Write | None = short, *, masked: bool = False) -> Cell:
    """Return the cell of a number, with the text that `write` returns for it.

    A masked cell is crossed out if it holds zero, and otherwise marked as a leak. A cell with NaN or infinity
    is black. If `write` is None, only these special cells have text, of one or two characters.
    """
    if masked and value == 0:
        return Cell(MASKED_FILL, "×", "masked", "masked", ink=MASKED_INK)
    if masked:
        # Leave out the leading zero: "!.25" is as wide as the other numbers, so the font can stay large.
        return leak_cell(
            f"!{write(value).removeprefix('0')}" if write else "!", f"{exact(value)}, although masked"
        )
    if not math.isfinite(value):
        sign = short(value)
        return Cell(NO_NUMBER_FILL, sign if write else sign.replace("NaN", "N"), exact(value), "no number")
    return Cell(shades.colour(value), write(value) if write else "", exact(value), "number", value)


def leak_cell(shown: str, details: str) -> Cell:
    """Return a cell in the alarm colours, for a value that should be zero."""
    return Cell(ALARM_FILL, shown, details, "leak", ink=ALARM_INK)


NOTES = {
    "masked": "×: masked; the query must not attend to this key.",
    "leak": "Orange cells with !: weight on a key that should be masked.",
    "no number": "Black cells hold no number: N is NaN, ∞ is infinity.",
}


def notes_on(cells: Iterable[Cell]) -> list[str]:
    """Return a line of explanation for each kind of special cell that occurs."""
    kinds = {cell.kind for cell in cells}
    return [line for kind, line in NOTES.items() if kind in kinds]


@dataclass(frozen=True)
class Grid:
    """The layout of a matrix: the labels of its rows and columns, and the size of its cells."""

    rows: Sequence[str]
    columns: Sequence[str]
    cell: int
    names: tuple[str, str, str] = ("row", "column", "value")
    """The names of the row axis, of the column axis and of the values."""
    row_height: int | None = None
    """The height of a cell in pixels; None for square cells."""
    frame: str = INK
    """The colour of the frames around framed cells."""

    @property
    def has_room(self) -> bool:
        """Whether a cell is wide enough for a value."""
        return self.cell >= ROOM_FOR_TEXT

    def numbers(
        self, values: Floats, shades: Shades, mask: Booleans | None = None, write: Write = short
    ) -> list[Cell]:
        """Return the cells of a matrix, row by row. Cells where `mask` is False are masked.

        `write` formats the numbers if the cells have room for text.
        """
        writer = write if self.has_room else None
        return [
            number_cell(float(value), shades, writer, masked=mask is not None and not mask[index])
            for index, value in np.ndenumerate(values)
        ]

    def draw(
        self,
        cells: Sequence[Cell],
        *,
        title: str = "",
        ramp: Shades | None = None,
        row_labels: bool = True,
        column_labels: bool = True,
    ) -> alt.LayerChart:
        """Draw cells, given row by row, with the labels of the rows and columns unless they are switched off.

        `ramp`, if given, determines the colours of the cells that hold a number, and is shown as a legend.
        """
        row_name, column_name, value_name = self.names
        height = self.row_height or self.cell
        count = len(self.columns)
        table = pd.DataFrame(list(cells))
        table["ink"] = [cell.ink or ink_on(cell.fill) for cell in cells]
        table["row"], table["column"] = np.divmod(np.arange(len(cells)), count)
        table["row name"] = [self.rows[row] for row in table["row"]]
        table["column name"] = [self.columns[column] for column in table["column"]]
        column_axis = word_axis(self.columns, self.cell, orient="top") if column_labels else None
        row_axis = word_axis(self.rows, height, orient="left") if row_labels else None
        base = alt.Chart(table).encode(
            x=index_x("column", count, column_name, column_axis),
            y=index_y("row", len(self.rows), row_name, row_axis),
            tooltip=tips(("row name:N", row_name), ("column name:N", column_name), ("details:N", value_name)),
        )
        # Cells without room for text are hidden from screen readers: there are hundreds, and the chart has a
        # description.
        boxes = base.mark_rect(stroke="white", strokeWidth=1 if self.cell > 12 else 0.5, aria=self.has_room)
        before_value = json.dumps(f": {value_name} ")
        told = f"datum['row name'] + ', ' + datum['column name'] + {before_value} + datum.details"
        boxes = boxes.transform_calculate(told=told).encode(description="told:N")
        plain = boxes.encode(color=alt.Color("fill:N", scale=None))
        layers = [plain]
        if ramp is not None:
            layers = [
                boxes.encode(fill=ramp.fill("value", value_name)).transform_filter("datum.kind === 'number'"),
                plain.transform_filter("datum.kind !== 'number'"),
            ]
        longest = max(len(cell.shown) for cell in cells) if self.has_room else 2
        size = max(7, min(12, int(1.5 * self.cell / max(longest, 2))))
        text = base.mark_text(fontSize=size, aria=False).transform_filter("datum.shown !== ''")
        layers.append(text.encode(text="shown:N", color=alt.Color("ink:N", scale=None, legend=None)))
        if table["framed"].any():
            frame = base.mark_rect(filled=False, stroke=self.frame, strokeWidth=2, clip=True, aria=False)
            layers.append(frame.transform_filter("datum.framed"))
        chart = alt.LayerChart(layer=layers, width=self.cell * count, height=height * len(self.rows))
        return chart.properties(title=panel_title(title)) if title else chart

    def side_by_side(
        self,
        panels: Mapping[str, Sequence[Cell]],
        *,
        gap: int,
        ramp: Shades | None = None,
        column_labels: bool = True,
    ) -> alt.HConcatChart:
        """Draw matrices with this layout side by side, `gap` pixels apart and each below its name."""
        charts = [
            self.draw(cells, title=name, ramp=ramp, row_labels=number == 0, column_labels=column_labels)
            for number, (name, cells) in enumerate(panels.items())
        ]
        return alt.hconcat(*charts, spacing=gap)


def captioned(chart: Chart, title: str, subtitle: str | Sequence[str], details: str) -> Chart:
    """Return the chart with a title, a subtitle, and a description that consists of the title and `details`.

    An empty `subtitle` is omitted.
    """
    sentence = title if title.endswith("?") else f"{title}."
    described = alt.Title(title, subtitle=subtitle or alt.Undefined)
    return chart.properties(title=described, description=f"{sentence} {details}".rstrip())


def cell_size(columns: int, room: int, largest: int = 44) -> int:
    """Return the side length at which `columns` cells fit into `room` pixels.

    The result is limited to the range from 6 to `largest`.
    """
    return max(6, min(largest, room // columns))


def index_x(field: str, count: int, title: str | None = None, axis: alt.Axis | None = None) -> alt.X:
    """Return an x encoding of an index from 0 to `count` - 1, without an axis unless one is given."""
    return alt.X(f"{field}:O", title=title, scale=alt.Scale(domain=list(range(count))), axis=axis)


def index_y(field: str, count: int, title: str | None = None, axis: alt.Axis | None = None) -> alt.Y:
    """Return a y encoding of an index from 0 (top) to `count` - 1, without an axis unless one is given."""
    return alt.Y(f"{field}:O", title=title, scale=alt.Scale(domain=list(range(count))), axis=axis)


def fixed_x(field: str, low: float, high: float, axis: alt.Axis | None = None) -> alt.X:
    """Return an x encoding whose scale is exactly `low` to `high`, without an axis unless one is given."""
    return alt.X(f"{field}:Q", axis=axis, scale=alt.Scale(domain=[low, high], nice=False, zero=False))


def fixed_y(field: str, low: float, high: float, axis: alt.Axis | None = None) -> alt.Y:
    """Return a y encoding whose scale is exactly `low` (bottom) to `high` (top); see `fixed_x`."""
    return alt.Y(f"{field}:Q", axis=axis, scale=alt.Scale(domain=[low, high], nice=False, zero=False))


def word_axis(words: Sequence[str], step: int, *, orient: Literal["top", "bottom", "left"]) -> alt.Axis:
    """Return an axis of words `step` pixels apart. Long words are rotated unless the axis is on the left."""
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


def beside_rows(texts: Sequence[str], cell: int, *, title: str, width: int) -> alt.Chart:
    """Draw a column of texts next to the rows of a grid, each `cell` pixels high.

    Texts with a "!" are in the alarm colour.
    """
    inks = [ALARM_INK if "!" in text else INK for text in texts]
    return (
        alt.Chart(pd.DataFrame({"row": range(len(texts)), "shown": texts, "ink": inks}))
        .mark_text(align="left")
        .encode(
            x=alt.value(0),
            y=index_y("row", len(texts)),
            text="shown:N",
            color=alt.Color("ink:N", scale=None),
        )
        .properties(width=width, height=cell * len(texts), title=panel_title(title, anchor="start"))
    )


def panel_title(name: str, anchor: Literal["start", "middle"] = "middle") -> alt.Title:
    """Return the title of a panel, in a smaller font than the picture's title."""
    return alt.Title(name, fontSize=13, anchor=anchor, offset=6)


def tips(*fields: tuple[str, str] | tuple[str, str, str]) -> list[alt.Tooltip]:
    """Return one tooltip for each tuple: a column of the data, a title and, for numbers, a format."""
    return [
        alt.Tooltip(field, title=title, format=form[0] if form else alt.Undefined)
        for field, title, *form in fields
    ]


def scale_of(names: Sequence[str], values: Sequence[Any] = CATEGORIES) -> alt.Scale:
    """Return a scale that maps each of `names` to one of `values`, in order.

    By default, the values are the course's colours.
    """
    return alt.Scale(domain=names, range=list(values[: len(names)]))


def series(
    field: str, names: Sequence[str], legend: alt.Legend | None = None
) -> tuple[alt.Color, alt.StrokeDash]:
    """Return the colour and dash encodings of `field`, which distinguish the lines called `names`."""
    return (
        alt.Color(field, scale=scale_of(names), sort=names, legend=legend),
        alt.StrokeDash(field, scale=scale_of(names, DASHES), sort=names, legend=legend),
    )


def clicked(name: str, value: dict[str, Any], bind: alt.Binding | dict[str, alt.Binding]) -> alt.Parameter:
    """Return a selection of exactly one mark, which a click or the lists in `bind` can change.

    `value` maps each field that identifies a mark to its initial value.
    """
    return alt.selection_point(
        name=name,
        fields=list(value),
        value=[value],
        bind=bind,  # type: ignore[arg-type]  # one list for each field
        on="click",
        clear=False,
        toggle=False,
        empty=False,
    )


def note(
    text: str, x: float, y: float, *, align: Literal["left", "right"] = "left", bold: bool = False
) -> alt.Chart:
    """Draw a line of text at a position in pixels. It is grey unless it is bold."""
    mark = alt.Chart(pd.DataFrame({"text": [text]})).mark_text(
        align=align, fontWeight="bold" if bold else "normal", color=INK if bold else QUIET_INK
    )
    return mark.encode(x=alt.value(x), y=alt.value(y), text="text:N")


@dataclass(frozen=True)
class Path:
    """A line through corner points, given in pixels, with an arrowhead at its end if `points` is True."""

    corners: tuple[tuple[float, float], ...]
    points: bool = True

    def head(self) -> dict[str, float]:
        """Return the centre of the arrowhead, which is slightly before the end, and its angle in degrees."""
        (from_x, from_y), (to_x, to_y) = self.corners[-2:]
        length = math.hypot(to_x - from_x, to_y - from_y)
        right, down = (to_x - from_x) / length, (to_y - from_y) / length
        angle = math.degrees(math.atan2(right, -down))
        return {"x": to_x - 3 * right, "y": to_y - 3 * down, "angle": angle}


@dataclass(frozen=True)
class Canvas:
    """A drawing area whose positions are in pixels from its upper left corner."""

    width: float
    height: float

    def x(self, field: str) -> alt.X:
        """Return the encoding of a horizontal position."""
        return fixed_x(field, 0, self.width)

    def y(self, field: str) -> alt.Y:
        """Return the encoding of a vertical position."""
        return fixed_y(field, self.height, 0)

    def arrows(self, paths: Sequence[Path], dash: Sequence[float] = (1, 0)) -> list[alt.Chart]:
        """Draw paths and their arrowheads. `dash` holds the lengths of the dashes and gaps of the lines."""
        if not paths:
            return []
        corners = pd.DataFrame(
            {"path": number, "order": order, "x": x, "y": y}
            for number, path in enumerate(paths)
            for order, (x, y) in enumerate(path.corners)
        )
        line = alt.Chart(corners).mark_line(
            color=QUIET_INK, strokeWidth=1.1, strokeDash=list(dash), strokeJoin="round", aria=False
        )
        layers = [line.encode(x=self.x("x"), y=self.y("y"), detail="path:N", order="order:Q")]
        if heads := [path.head() for path in paths if path.points]:
            head = alt.Chart(pd.DataFrame(heads)).mark_point(
                filled=True, color=QUIET_INK, size=34, opacity=1, shape="triangle-up", aria=False
            )
            angle = alt.Angle("angle:Q", scale=None)
            layers.append(head.encode(x=self.x("x"), y=self.y("y"), angle=angle))
        return layers

    def texts(
        self,
        signs: Sequence[tuple[float, float, str]],
        *,
        size: int = 11,
        colour: str = QUIET_INK,
        align: Literal["left", "center"] = "center",
        weight: Literal["normal", "bold"] = "normal",
    ) -> alt.Chart:
        """Draw labels. `signs` holds a tuple (x, y, text) for each of them."""
        return (
            alt.Chart(pd.DataFrame(signs, columns=["x", "y", "text"]))
            .mark_text(fontSize=size, color=colour, fontWeight=weight, align=align)
            .encode(x=self.x("x"), y=self.y("y"), text="text:N")
        )


def powers_of_ten(low: float, high: float, decades_with_steps: int = 4) -> alt.Axis:
    """Return an axis with ticks at 1, 2 and 5 times powers of ten, or only at the powers for a wide range.

    A range is wide if it extends over `decades_with_steps` or more powers. If it extends over 12 or more,
    some of the powers are skipped.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) < decades_with_steps else (1,)
    every = 1 + len(decades) // 12
    return alt.Axis(
        values=[step * 10.0**power for power in decades if power % every == 0 for step in steps],
        format="~g" if decades[0] >= -6 and decades[-1] <= 6 else ".0e",
    )
