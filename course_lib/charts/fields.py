"""A large table of numbers as a field of colours, where patterns matter and single numbers do not."""

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Numbers, from_tensor
from course_lib.charts.cells import Shades, exact
from course_lib.charts.theme import WIDTH, Picture

ROOM, TALLEST, LARGEST = 130, 360, 5_000
"""Pixels kept for the axis and the legend, pixels that a field may be high, and the most numbers it shows."""


def number_field(
    values: Numbers,
    *,
    rows: str,
    columns: str,
    value: str = "value",
    title: str,
) -> Picture:
    """One cell for each number of a table, coloured by it; what it is, is told under the mouse.

    `values` is (R, C), 5,000 numbers at most, all finite. `rows`, `columns` and `value` say what they are;
    rows and columns are numbered from 0. Negative numbers are brown, positive ones blue; where none is
    negative, the shades go from white upwards. Raises ValueError for other numbers.
    """
    field = from_tensor(values, "values", (2,))
    if field.size > LARGEST:
        raise ValueError(f"values: expected {LARGEST:,} numbers at most, got {field.size:,}. Show a part.")
    if not np.isfinite(field).all():
        raise ValueError("values: expected finite numbers, got NaN or infinity. Look at its rows first.")
    height, width = field.shape
    across = max(3, min(16, (WIDTH - ROOM) // width))
    down = max(3, min(across, TALLEST // height) if height > width else min(16, TALLEST // height))
    shades = Shades.spanning(field)
    places = np.indices(field.shape)
    table = pd.DataFrame(
        {"row": places[0].ravel(), "column": places[1].ravel(), "value": field.ravel().round(4)}
    )
    cells = (
        alt.Chart(table)
        .mark_rect(aria=False)
        .encode(
            x=alt.X("column:O", title=columns, axis=_numbered(width, across, "top")),
            y=alt.Y("row:O", title=rows, axis=_numbered(height, down, "left")),
            color=alt.Color("value:Q", title=value, scale=shades.scale(), legend=shades.legend()),
            tooltip=[
                alt.Tooltip("row:O", title=rows),
                alt.Tooltip("column:O", title=columns),
                alt.Tooltip("value:Q", title=value, format=".4~g"),
            ],
        )
        .properties(width=across * width, height=down * height)
    )
    # A layer of one, so that the picture's title stands at its own left and not above the cells.
    return alt.LayerChart(layer=[cells]).properties(
        title=alt.Title(title),
        description=(
            f"{title} {height} rows ({rows}) by {width} columns ({columns}); {value} from "
            f"{exact(float(field.min()))} to {exact(float(field.max()))}."
        ),
    )


def _numbered(count: int, step: int, orient: str) -> alt.Axis:
    """Every so many numbers, that they do not touch."""
    every = next(every for every in (1, 2, 4, 8, 16, 32, 64, 128, 10_000) if every * step >= 22)
    return alt.Axis(
        values=list(range(0, count, every)),
        labelAngle=0,
        orient=orient,  # type: ignore[arg-type]
        ticks=False,
        domain=False,
        grid=False,
    )
