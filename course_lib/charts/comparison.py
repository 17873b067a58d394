"""A result beside the expected one: the picture of a failed check."""

from collections.abc import Sequence
from typing import TypeAlias

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Booleans, Floats, Numbers, from_tensor
from course_lib.charts.cells import (
    ROOM_FOR_TEXT,
    WEIGHT_SHADES,
    Grid,
    Shades,
    cell_size,
    exact,
    notes_on,
    short,
)
from course_lib.charts.colours import ALARM_FILL, ALARM_INK, EQUAL_FILL, QUIET_INK
from course_lib.charts.theme import WIDTH, Picture, panel_title

LARGEST = 16
"""Rows and columns that are shown at most; of larger results, the part around the first difference."""

NAMES = ("your result", "expected", "where they differ")
SIDE_ROOM = 130
SCALE_ROOM = 2.0
"""How far the shared colours go beyond the largest expected size, so that one wild value drowns nothing."""

Window: TypeAlias = tuple[range, range]
"""The rows and the columns that are shown."""


def found_beside_expected(
    found: Numbers,
    expected: Numbers,
    *,
    title: str | None = None,
    axes: tuple[str, str] = ("row", "column"),
    tolerance: float = 1e-6,
) -> Picture:
    """The student's result, the expected one in the same colours, and where the two differ.

    `found` and `expected` have up to two axes, named by `axes`; a result with one axis is drawn as a row.
    Of results with more axes give the first slice that differs. Two values differ when they are more than
    `tolerance` apart, absolute plus relative to the expected one; NaN equals NaN. Of more than 16 rows or
    columns the part around the first difference is shown, and the subtitle says which. Results of different
    shapes stand side by side, without the third panel. The default title counts what differs. Raises
    ValueError for more axes or no numbers at all.
    """
    left, right = from_tensor(found, "found", (0, 1, 2)), from_tensor(expected, "expected", (0, 1, 2))
    wrong = None
    if left.shape == right.shape:
        wrong = np.atleast_2d(~np.isclose(left, right, rtol=tolerance, atol=tolerance, equal_nan=True))
    finding = _finding(left.shape, right.shape, wrong)
    matrices = [np.atleast_2d(left), np.atleast_2d(right)]
    shades = _shared_shades(*matrices)
    windows = [_window(matrix.shape, wrong) for matrix in matrices]
    cell, stacked = _room(windows)
    grids = [_grid(window, cell, axes) for window in windows]
    shown = [matrix[np.ix_(*window)] for matrix, window in zip(matrices, windows, strict=True)]
    tables = [grid.table(part, shades) for grid, part in zip(grids, shown, strict=True)]
    notes = _notes(matrices, windows, shades, pd.concat(tables))
    ramps = [None if grid.has_room else shades for grid in grids]
    if wrong is not None:
        grids, ramps = [*grids, grids[0]], [*ramps, None]
        tables.append(_difference_table(grids[0], shown[0], shown[1], wrong[np.ix_(*windows[0])]))

    axis_count = max(left.ndim, right.ndim)
    panels: list[alt.LayerChart] = []
    for name, grid, table, ramp in zip(NAMES, grids, tables, ramps, strict=False):
        apart = not panels or wrong is None
        panel = grid.draw(
            table,
            ramp=ramp,
            row_labels=axis_count == 2 and (apart or stacked),
            column_labels=axis_count > 0 and (apart or not stacked),
        )
        panels.append(panel.properties(title=panel_title(name)))
    picture = alt.vconcat(*panels, spacing=10) if stacked else alt.hconcat(*panels, spacing=16)
    lines = notes if title is None else [f"{finding}.", *notes]
    return picture.properties(
        title=alt.Title(title or finding, subtitle=lines or alt.Undefined),
        description=f"{'' if title is None else title + '. '}{finding}.{_told(matrices, wrong, axes)}",
    )


def _finding(found: tuple[int, ...], expected: tuple[int, ...], wrong: Booleans | None) -> str:
    if wrong is None:
        return f"The shapes differ: {found} found, {expected} expected"
    return (
        f"{int(wrong.sum())} of {wrong.size} values differ"
        if wrong.any()
        else f"All {wrong.size} values agree"
    )


def _shared_shades(found: Floats, expected: Floats) -> Shades:
    largest = float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
    return Shades.spanning(found, expected, at_most=SCALE_ROOM * largest or np.inf)


def _window(shape: tuple[int, ...], wrong: Booleans | None) -> Window:
    """The rows and columns to show: all, or 16 with the first difference in their middle."""
    first = (0, 0) if wrong is None or not wrong.any() else np.argwhere(wrong)[0].tolist()
    starts = [max(0, min(at - LARGEST // 2, size - LARGEST)) for at, size in zip(first, shape, strict=True)]
    rows, columns = (
        range(start, min(size, start + LARGEST)) for start, size in zip(starts, shape, strict=True)
    )
    return rows, columns


def _grid(window: Window, cell: int, axes: tuple[str, str]) -> Grid:
    rows, columns = ([str(index) for index in indices] for indices in window)
    return Grid(rows, columns, cell, (*axes, "value"))


def _room(windows: Sequence[Window]) -> tuple[int, bool]:
    """The cell's size, and whether the panels stand one above the other, as flat wide ones do."""
    highest, widest = (max(map(len, indices)) for indices in zip(*windows, strict=True))
    beside = cell_size(3 * widest, WIDTH - SIDE_ROOM, 40)
    if highest <= 2 and beside < ROOM_FOR_TEXT:
        return cell_size(widest, WIDTH - SIDE_ROOM, 40), True
    return beside, False


def _difference_table(grid: Grid, found: Floats, expected: Floats, wrong: Booleans) -> pd.DataFrame:
    """The third panel's cells: the difference where there is one, else a quiet sign of equality."""
    table = grid.table(np.zeros(wrong.shape), WEIGHT_SHADES)
    with np.errstate(invalid="ignore"):
        difference = (found - expected).ravel()
    table["told"] = [
        f"found {exact(f)}, expected {exact(e)}" for f, e in zip(found.flat, expected.flat, strict=True)
    ]
    table["fill"] = np.where(wrong.ravel(), ALARM_FILL, EQUAL_FILL)
    table["ink"] = np.where(wrong.ravel(), ALARM_INK, QUIET_INK)
    table["shown"] = [
        "=" if not differs else _signed(value) if grid.has_room and np.isfinite(value) else "≠"
        for differs, value in zip(wrong.flat, difference.tolist(), strict=True)
    ]
    return table


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + short(value)


def _notes(
    matrices: Sequence[Floats], windows: Sequence[Window], shades: Shades, cells: pd.DataFrame
) -> list[str]:
    """What a reader must know: which part is shown, black cells, colours that end early."""
    lines = [
        f"Shown: rows {rows[0]} to {rows[-1]} of {matrix.shape[0]}, "
        f"columns {columns[0]} to {columns[-1]} of {matrix.shape[1]}."
        for matrix, (rows, columns) in zip(matrices, windows, strict=True)
        if (len(rows), len(columns)) != matrix.shape
    ]
    lines += notes_on(cells)
    if any(np.abs(matrix[np.isfinite(matrix)]).max(initial=0.0) > shades.high for matrix in matrices):
        lines.append(f"Colours end at {short(shades.high)}; sizes beyond take the last colour.")
    return list(dict.fromkeys(lines))


def _told(matrices: Sequence[Floats], wrong: Booleans | None, axes: tuple[str, str]) -> str:
    """The first three differences in words."""
    if wrong is None or not wrong.any():
        return ""
    found, expected = matrices
    row, column = axes
    told = [
        f"{row} {r}, {column} {c}: found {exact(found[r, c])}, expected {exact(expected[r, c])}"
        for r, c in np.argwhere(wrong)[:3].tolist()
    ]
    return f" First: {'; '.join(told)}."
