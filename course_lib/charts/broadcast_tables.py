"""Broadcasting as it happens: two tables, stretched until they are equal, and what becomes of them."""

import math

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Booleans, Floats, Numbers, from_tensor
from course_lib.charts.cells import Grid, Shades, cell_size, exact, short
from course_lib.charts.colours import EQUAL_FILL, MASKED_INK
from course_lib.charts.theme import WIDTH, Picture, panel_title

ROOM_BESIDE, GAP = 90, 40
"""Pixels kept free at the left, and between two tables."""


def broadcast_tables(
    left: Numbers,
    right: Numbers,
    result: Numbers,
    *,
    names: tuple[str, str, str] = ("left", "right", "result"),
    title: str = "Broadcasting copies what is too short",
) -> Picture:
    """Three tables side by side: both operands, stretched to the result's shape, and the result.

    A number that broadcasting has copied stands in brackets and is pale. Operands and result have one or two
    axes; one axis is drawn as a row. `names` are written above, each with its shape. Raises ValueError where
    the operands' shapes do not broadcast to the result's.
    """
    given = {
        name: from_tensor(values, name, (1, 2))
        for name, values in zip(("left", "right", "result"), (left, right, result), strict=True)
    }
    shapes = [values.shape for values in given.values()]
    try:
        whole = np.broadcast_shapes(*shapes[:2])
    except ValueError:
        raise ValueError(
            f"left, right: expected shapes that broadcast, got {shapes[0]} and {shapes[1]}."
        ) from None
    if whole != shapes[2]:
        raise ValueError(
            f"result: expected the shape {whole}, to which the operands broadcast, got {shapes[2]}."
        )
    rows, columns = whole if len(whole) == 2 else (1, *whole)
    cell = cell_size(3 * columns, WIDTH - ROOM_BESIDE - 2 * GAP, 46)
    grid = Grid(
        [str(n) for n in range(rows)], [str(n) for n in range(columns)], cell, ("row", "column", "value")
    )
    shades = [Shades.spanning(given["left"], given["right"])] * 2 + [Shades.spanning(given["result"])]
    panels = [
        grid.draw(_cells(grid, values, (rows, columns), shade), row_labels=number == 0).properties(
            title=panel_title(f"{name}  {values.shape}")
        )
        for number, (name, values, shade) in enumerate(zip(names, given.values(), shades, strict=True))
    ]
    copied = [f"{name} {shape}" for name, shape in zip(names, shapes, strict=True)]
    lines = "Numbers in brackets are copies that broadcasting makes. (In thought: nothing is stored twice.)"
    return alt.hconcat(*panels, spacing=GAP).properties(
        title=alt.Title(title, subtitle=lines),
        description=f"{title}. {copied[0]} and {copied[1]} give {copied[2]}.",
    )


def _cells(grid: Grid, values: Floats, whole: tuple[int, int], shades: Shades) -> pd.DataFrame:
    """A table stretched to its whole size, with what is copied in brackets."""
    table = grid.table(np.broadcast_to(np.atleast_2d(values), whole), shades)
    for place in np.flatnonzero(_copies(values, whole)):
        value = float(np.broadcast_to(np.atleast_2d(values), whole).ravel()[place])
        table.loc[place, ["fill", "ink", "told"]] = [EQUAL_FILL, MASKED_INK, f"{exact(value)}, a copy"]
        table.loc[place, "shown"] = f"({short(value)})" if grid.has_room else ""
        table.loc[place, "kind"] = "copy" if math.isfinite(value) else "no number"
    return table


def _copies(values: Floats, whole: tuple[int, int]) -> Booleans:
    """Where a stretched table holds copies: everywhere but in its first row or column."""
    own = np.atleast_2d(values).shape
    rows, columns = np.indices(whole)
    return np.asarray((rows >= own[0]) | (columns >= own[1]))
