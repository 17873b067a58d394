"""What more heads cost: parameters, arithmetic and attention weights."""

import altair as alt
import pandas as pd

from course_lib.charts.colours import CATEGORIES
from course_lib.charts.theme import Picture, panel_title

COUNTS = {
    "parameters": "parameters",
    "multiplications": "multiplications",
    "weights": "attention weights",
}
"""The columns that are counted, and what their panels are called."""


def cost_of_heads(table: pd.DataFrame, *, title: str = "What do more heads cost?") -> Picture:
    """Three panels of bars against the number of heads, each from zero.

    `table` has one row for each number of `heads`, with what was counted there: `parameters`,
    `multiplications` and `weights`, the numbers that come out of all softmaxes. Raises ValueError for
    missing columns, an empty table, a number of heads that stands there twice, or counts below zero.
    """
    _check(table)
    table = table.sort_values("heads")
    panels = [
        _bars(table, column, name, colour)
        for (column, name), colour in zip(COUNTS.items(), CATEGORIES, strict=False)
    ]
    return alt.hconcat(*panels, spacing=24).properties(
        title=alt.Title(
            title, subtitle="k: thousands, M: millions. Each panel has a scale of its own, from zero."
        ),
        description=f"{title} {_told(table)}",
    )


def _check(table: pd.DataFrame) -> None:
    missing = [name for name in ("heads", *COUNTS) if name not in table.columns]
    if missing:
        raise ValueError(f"table: expected the columns {('heads', *COUNTS)}, missing {missing}.")
    if table.empty:
        raise ValueError("table: expected a row for at least one number of heads, got an empty table.")
    if table["heads"].duplicated().any():
        twice = table.loc[table["heads"].duplicated(), "heads"].iloc[0]
        raise ValueError(f"table: expected one row for each number of heads, got two for {twice}.")
    if (table[list(COUNTS)] < 0).any(axis=None):
        raise ValueError("table: expected counts of 0 or more, got some below.")


def _bars(table: pd.DataFrame, column: str, name: str, colour: str) -> alt.LayerChart:
    frame = table[["heads", column]].assign(shown=[_short(count) for count in table[column]])
    scale = alt.Scale(domain=[0, 1.15 * float(frame[column].max()) or 1.0], nice=False)
    base = alt.Chart(frame).encode(
        x=alt.X("heads:O", title="heads", axis=alt.Axis(labelAngle=0, ticks=False)),
        y=alt.Y(f"{column}:Q", scale=scale, axis=None),
        tooltip=[
            alt.Tooltip("heads:O", title="heads"),
            alt.Tooltip(f"{column}:Q", title=name, format=","),
        ],
    )
    bars = base.mark_bar(color=colour, width={"band": 0.7})
    numbers = base.mark_text(dy=-8, aria=False).encode(text="shown:N")
    return alt.LayerChart(layer=[bars, numbers], width=200, height=170).properties(title=panel_title(name))


def _short(count: float) -> str:
    """A count in three digits or so: 800, 80k, 1.05M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{letter}"
    return f"{count:.3g}"


def _told(table: pd.DataFrame) -> str:
    lines = [
        f"With {row['heads']}: " + ", ".join(f"{row[column]:,} {name}" for column, name in COUNTS.items())
        for row in table.to_dict("records")
    ]
    return "; ".join(lines) + "."
