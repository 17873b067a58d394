"""The chart of a failed check: the student's result next to the expected result."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import altair as alt
import numpy as np

from course_lib.charts.inputs import Booleans, Floats, Numbers, from_tensor
from course_lib.charts.marks import (
    ROOM_FOR_TEXT,
    Cell,
    Grid,
    Shades,
    captioned,
    cell_size,
    exact,
    notes_on,
    short,
)
from course_lib.charts.theme import ALARM_FILL, ALARM_INK, EQUAL_FILL, QUIET_INK, WIDTH, Picture

MAX_SHOWN = 16
"""The maximum number of rows and columns. Larger results are cropped around the first difference."""

TITLE = "Your result beside the expected one"

NAMES = ("your result", "expected", "where they differ")

LETTER, TITLE_LETTER = 7, 9
"""The average width in pixels of a letter in the text and in the title."""

LABELS = 30
"""The width in pixels of the labels of the rows."""

SCALE_ROOM = 2.0
"""The end of the colour scale, relative to the largest expected value, so that no outlier hides the rest."""

Window: TypeAlias = tuple[range, range]
"""The rows and the columns that are shown."""


def found_beside_expected(found: Numbers, expected: Numbers, differs: Numbers | None) -> Picture:
    """Draw the student's result next to the expected result, and their differences in a third panel.

    `differs` has the shape of the results and is true where they differ, which must be the case at least
    once. For results with more than two axes, only the first pair of matrices that differ is drawn. Both
    results have the same colour scale. If there are more than 16 rows or columns, only 16 around the first
    difference are shown, and the subtitle says which. If the shapes of the results differ, `differs` must be
    None, there is no third panel, and the first matrices are shown. Raises ValueError for results without
    numbers or with fewer than two or more than eight axes.
    """
    left, right = from_tensor(found, "found", range(2, 9)), from_tensor(expected, "expected", range(2, 9))
    are_truth_values = str(getattr(expected, "dtype", "")).endswith("bool")
    wrong: Booleans | None = None
    if left.shape == right.shape:
        assert differs is not None
        everywhere = from_tensor(differs, "differs", range(2, 9)) != 0
        count = int(everywhere.sum())
        what = "truth values" if are_truth_values else "numbers"
        finding = f"{count} of {everywhere.size} {what} {'differs' if count == 1 else 'differ'}."
        at = tuple(np.argwhere(everywhere)[0].tolist()[:-2])
        part = f"Shown: the matrix at {list(at)}." if at else ""
        matrices, wrong = [left[at], right[at]], everywhere[at]
    else:
        finding = f"The shapes differ: got {left.shape}, expected {right.shape}."
        part = "Shown: the first matrix of each." if max(left.ndim, right.ndim) > 2 else ""
        matrices = [result[(0,) * (result.ndim - 2)] for result in (left, right)]
    largest = float(np.abs(matrices[1][np.isfinite(matrices[1])]).max(initial=0.0))
    shades = Shades.spanning(*matrices, at_most=SCALE_ROOM * largest or np.inf)
    windows = [_window(matrix.shape, wrong) for matrix in matrices]
    cell, stacked = _layout(windows)
    grids = [Grid(list(map(str, rows)), list(map(str, columns)), cell) for rows, columns in windows]
    shown = [matrix[np.ix_(*window)] for matrix, window in zip(matrices, windows, strict=True)]
    cells = [grid.numbers(part, shades) for grid, part in zip(grids, shown, strict=True)]
    notes = _notes(matrices, windows, shades, [cell for part in cells for cell in part])
    ramps = [None if grid.has_room else shades for grid in grids]
    if wrong is not None:
        grids, ramps = [*grids, grids[0]], [*ramps, None]
        cells.append(_differences(shown[0], shown[1], wrong[np.ix_(*windows[0])], grids[0].has_room))

    panels = [
        grid.draw(
            part,
            title=name,
            ramp=ramp,
            row_labels=number == 0 or wrong is None or stacked,
            column_labels=number == 0 or wrong is None or not stacked,
        )
        for number, (name, grid, part, ramp) in enumerate(zip(NAMES, grids, cells, ramps, strict=False))
    ]
    if are_truth_values:
        notes = ["1 means True, and 0 means False.", *notes]
    lines = [finding, *filter(None, [part]), *notes]
    widths = [cell * len(columns) for _, columns in windows]
    spacing, padding = _room_for_text([max(widths)] if stacked else widths + widths[: len(panels) - 2], lines)
    picture = alt.vconcat(*panels, spacing=10) if stacked else alt.hconcat(*panels, spacing=spacing)
    first = _first_differences(matrices, wrong)
    shown_at = f"{part} " if part and first else ""
    return captioned(
        picture.properties(padding={"left": 5, "top": 5, "bottom": 5, "right": padding}),
        TITLE,
        lines,
        f"{finding} {shown_at}{first}",
    )


def _room_for_text(widths: Sequence[int], lines: Sequence[str]) -> tuple[int, int]:
    """Return the space between and to the right of the panels, so that wide texts aren't cut off.

    `widths` are the widths of the panels in pixels, and `lines` are the lines of the subtitle.
    """
    overhang = max(
        0, *((LETTER * len(name) - width) // 2 for name, width in zip(NAMES, widths, strict=False))
    )
    spacing = 16 + 2 * overhang
    drawn = sum(widths) + spacing * (len(widths) - 1) + LABELS
    text = max(TITLE_LETTER * len(TITLE), *(LETTER * len(line) for line in lines))
    return spacing, 5 + max(overhang, text - drawn)


def _window(shape: tuple[int, ...], wrong: Booleans | None) -> Window:
    """Return the rows and columns to show: at most 16 of each, around the first difference, if any."""
    first = (0, 0) if wrong is None else np.argwhere(wrong)[0].tolist()
    starts = [
        max(0, min(at - MAX_SHOWN // 2, size - MAX_SHOWN)) for at, size in zip(first, shape, strict=True)
    ]
    rows, columns = (
        range(start, min(size, start + MAX_SHOWN)) for start, size in zip(starts, shape, strict=True)
    )
    return rows, columns


def _layout(windows: Sequence[Window]) -> tuple[int, bool]:
    """Return the size of a cell, and whether to stack the panels.

    Panels with few rows are stacked if their cells have room for text only then.
    """
    highest, widest = (max(map(len, indices)) for indices in zip(*windows, strict=True))
    room = WIDTH - 130
    beside = cell_size(3 * widest, room, 40)
    if highest <= 5 and beside < ROOM_FOR_TEXT <= (larger := cell_size(widest, room, 40)):
        return larger, True
    return beside, False


def _differences(found: Floats, expected: Floats, wrong: Booleans, has_room: bool) -> list[Cell]:
    """Return the cells of the third panel: a pale equals sign for equal values, otherwise the difference.

    If the difference isn't finite or doesn't fit into the cell, "≠" is shown instead.
    """
    cells = []
    for f, e, differs in zip(found.flat, expected.flat, wrong.flat, strict=True):
        details = f"got {exact(f)}, expected {exact(e)}"
        if differs:
            fits = has_room and np.isfinite(f) and np.isfinite(e)
            shown = _signed(f - e) if fits else "≠"
            cells.append(Cell(ALARM_FILL, shown, details, ink=ALARM_INK))
        else:
            cells.append(Cell(EQUAL_FILL, "=", details, ink=QUIET_INK))
    return cells


def _signed(difference: float) -> str:
    """Format a difference with its sign, and in scientific notation if two decimals would show it as zero."""
    text = f"{difference:+.0e}".replace("e-0", "e-") if abs(difference) < 0.005 else short(difference)
    return text if text.startswith(("+", "-")) else f"+{text}"


def _notes(
    matrices: Sequence[Floats], windows: Sequence[Window], shades: Shades, cells: Iterable[Cell]
) -> list[str]:
    """Return notes for the reader on cropped results, special cells and the end of the colour scale."""
    lines = [
        f"Shown: rows {rows[0]} to {rows[-1]} of {matrix.shape[0]}, "
        f"columns {columns[0]} to {columns[-1]} of {matrix.shape[1]}."
        for matrix, (rows, columns) in zip(matrices, windows, strict=True)
        if (len(rows), len(columns)) != matrix.shape
    ]
    lines += notes_on(cells)
    if any(np.abs(matrix[np.isfinite(matrix)]).max(initial=0.0) > shades.high for matrix in matrices):
        lines.append(f"The colours end at {short(shades.high)}; larger magnitudes have the last colour.")
    return list(dict.fromkeys(lines))


def _first_differences(matrices: Sequence[Floats], wrong: Booleans | None) -> str:
    if wrong is None:
        return ""
    found, expected = matrices
    details = [
        f"row {r}, column {c}: got {exact(found[r, c])}, expected {exact(expected[r, c])}"
        for r, c in np.argwhere(wrong)[:3].tolist()
    ]
    return f"First: {'; '.join(details)}."
