"""Shapes written below each other, right ends together: which axes stretch, and which do not fit."""

from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from course_lib.charts.cells import Grid, cell_size
from course_lib.charts.colours import ALARM_FILL, ALARM_INK, AMOUNTS, EQUAL_FILL, MASKED_INK, ink_on
from course_lib.charts.theme import WIDTH, Picture

ROOM_BESIDE = 200
"""Pixels kept free for the names of the tensors."""

RESULT = "together"


def aligned_shapes(
    shapes: Mapping[str, Sequence[int]], *, title: str = "Shapes meet at their right ends"
) -> Picture:
    """One row for each tensor's shape, one column for each axis, and below them what broadcasting makes.

    `shapes` maps a tensor's name to its shape. An axis of length one that is stretched says so, as "1 → 4";
    one that a tensor lacks counts as one of length one, "+ → 4". Where two lengths differ and none is one,
    they are orange with a "!", and so is the result. Raises ValueError for less than two shapes, or an empty
    one.
    """
    if len(shapes) < 2 or not all(len(shape) for shape in shapes.values()):
        raise ValueError(
            f"shapes: expected two shapes or more, each of at least one axis, got {list(shapes.values())}."
        )
    axes = max(len(shape) for shape in shapes.values())
    padded = {name: [None] * (axes - len(shape)) + list(shape) for name, shape in shapes.items()}
    columns = [[shape[axis] for shape in padded.values()] for axis in range(axes)]
    lengths = [_together(column) for column in columns]
    grid = Grid(
        [*shapes, RESULT],
        [f"axis {axis - axes}" for axis in range(axes)],
        cell_size(axes, WIDTH - ROOM_BESIDE, 62),
        ("tensor", "axis", "length"),
    )
    cells = [
        _cell(row, axis, own, lengths[axis])
        for row, shape in enumerate(padded.values())
        for axis, own in enumerate(shape)
    ]
    cells += [_result(len(shapes), axis, length) for axis, length in enumerate(lengths)]
    table = pd.DataFrame(cells)
    table["row name"] = [grid.rows[row] for row in table["row"]]
    table["column name"] = [grid.columns[column] for column in table["column"]]
    told = "; ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
    whole = "they do not fit" if None in lengths else f"together {tuple(lengths)}"
    lines = [
        "1 → n: an axis of length one, copied n times. + → n: a missing axis, which counts as length one."
    ]
    if None in lengths:
        lines.append("Orange with !: the lengths differ and none of them is one, so torch refuses.")
    return alt.hconcat(grid.draw(table)).properties(
        title=alt.Title(title, subtitle=lines), description=f"{title}. {told}; {whole}."
    )


def _together(lengths: Sequence[int | None]) -> int | None:
    """What an axis's lengths broadcast to, or None where they do not fit."""
    longer = {length for length in lengths if length not in (None, 1)}
    if len(longer) > 1:
        return None
    return longer.pop() if longer else 1


def _cell(row: int, axis: int, own: int | None, whole: int | None) -> dict[str, str | int]:
    """How one axis of one tensor looks."""
    fill, ink, shown, told = AMOUNTS[1], ink_on(AMOUNTS[1]), str(own), f"length {own}"
    if own is None or (own == 1 and whole != 1):
        sign = "+" if own is None else "1"
        fill, ink, shown = EQUAL_FILL, MASKED_INK, f"{sign} → {whole}" if whole else sign
        told = f"{'no such axis' if own is None else 'length 1'}, stretched to {whole}" if whole else told
    elif whole is None:
        fill, ink, shown, told = ALARM_FILL, ALARM_INK, f"{own}!", f"length {own}, which does not fit"
    return {
        "row": row,
        "column": axis,
        "kind": "shape",
        "fill": fill,
        "ink": ink,
        "shown": shown,
        "told": told,
    }


def _result(row: int, axis: int, whole: int | None) -> dict[str, str | int]:
    fill = AMOUNTS[3] if whole else ALARM_FILL
    ink = ink_on(fill) if whole else ALARM_INK
    shown, told = (str(whole), f"length {whole}") if whole else ("!", "none: they do not fit")
    return {
        "row": row,
        "column": axis,
        "kind": "shape",
        "fill": fill,
        "ink": ink,
        "shown": shown,
        "told": told,
    }
