"""The charts of lesson 00: how shapes broadcast, and what broadcasting copies."""

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np

from course_lib.charts.inputs import Floats, Numbers, from_tensor
from course_lib.charts.marks import Cell, Grid, Shades, captioned, cell_size, exact, leak_cell, short
from course_lib.charts.theme import AMOUNTS, EQUAL_FILL, MASKED_INK, WIDTH, Picture


def aligned_shapes(shapes: Mapping[str, Sequence[int]]) -> Picture:
    """Draw the shapes of tensors, aligned at their last axes, and the shape after broadcasting below.

    `shapes` maps a tensor's name to its shape. An axis of length 1 that is broadcast to length 4 is written
    "1 → 4", and a missing axis "+ → 4". Where two lengths differ and neither is 1, both lengths and the
    result are orange with a "!". Raises ValueError for fewer than two shapes, or for a shape without axes.
    """
    if len(shapes) < 2 or not all(len(shape) for shape in shapes.values()):
        raise ValueError(
            f"shapes: expected two or more shapes, each with at least one axis, got {list(shapes.values())}."
        )
    axes = max(len(shape) for shape in shapes.values())
    padded = [[None] * (axes - len(shape)) + list(shape) for shape in shapes.values()]
    lengths = [_broadcast([shape[axis] for shape in padded]) for axis in range(axes)]
    names = [f"axis {axis - axes}" for axis in range(axes)]
    grid = Grid([*shapes, "result"], names, cell_size(axes, WIDTH - 200, 62), ("tensor", "axis", "length"))
    cells = [_length_cell(own, lengths[axis]) for shape in padded for axis, own in enumerate(shape)]
    no_result = Cell(EQUAL_FILL, "", "no result", ink=MASKED_INK)
    cells += [
        leak_cell("!", "the lengths differ")
        if length is None
        else no_result
        if None in lengths
        else Cell(AMOUNTS[3], str(length), f"length {length}")
        for length in lengths
    ]
    lines = [
        "1 → n: an axis of length 1, stretched to n. + → n: a missing axis, which is treated as length 1."
    ]
    if None in lengths:
        lines.append("Orange with !: the lengths differ and neither is 1, so torch raises an error.")
    details = "; ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
    result = "they do not broadcast" if None in lengths else f"result {tuple(lengths)}"
    return captioned(
        alt.hconcat(grid.draw(cells)), "Shapes are aligned at their last axis", lines, f"{details}; {result}."
    )


def _broadcast(lengths: Sequence[int | None]) -> int | None:
    """Return the length that an axis broadcasts to, or None if its lengths are incompatible.

    A length of None means that a tensor lacks the axis.
    """
    longer = {length for length in lengths if length not in (None, 1)} or {1}
    return longer.pop() if len(longer) == 1 else None


def _length_cell(own: int | None, result: int | None) -> Cell:
    if own is None or (own == 1 and result != 1):
        sign, what = ("+", "no such axis") if own is None else ("1", "length 1")
        if result is None:
            return Cell(EQUAL_FILL, sign, what, ink=MASKED_INK)
        return Cell(EQUAL_FILL, f"{sign} → {result}", f"{what}, stretched to {result}", ink=MASKED_INK)
    if result is None:
        return leak_cell(f"! {own}", f"length {own}, which does not fit")
    return Cell(AMOUNTS[1], str(own), f"length {own}")


def broadcast_tables(
    left: Numbers,
    right: Numbers,
    result: Numbers,
    *,
    names: tuple[str, str, str] = ("left", "right", "result"),
    title: str = "",
) -> Picture:
    """Draw three tables side by side: both operands, broadcast to the result's shape, and the result.

    Copies are pale and in brackets. Operands and result have one or two axes; a tensor with one axis is drawn
    as a row. `names` are written above the tables, with the shapes of the tensors. Without a `title`, the
    picture's title says whether an axis is repeated. Raises ValueError for tensors with no axes or more than
    two, or if the operands' shapes do not broadcast to the result's.
    """
    operands = from_tensor(left, "left", (1, 2)), from_tensor(right, "right", (1, 2))
    outcome = from_tensor(result, "result", (1, 2))
    try:
        whole = np.broadcast_shapes(*(values.shape for values in operands))
    except ValueError:
        shapes = " and ".join(str(values.shape) for values in operands)
        raise ValueError(f"left, right: expected shapes that broadcast, got {shapes}.") from None
    if whole != outcome.shape:
        raise ValueError(
            f"result: expected the shape {whole}, to which the operands broadcast, got {outcome.shape}."
        )
    rows, columns = whole if len(whole) == 2 else (1, *whole)
    gap = 40
    cell = cell_size(3 * columns, WIDTH - 90 - 2 * gap, 46)
    grid = Grid([str(row) for row in range(rows)], [str(column) for column in range(columns)], cell)
    shades = [Shades.spanning(*operands)] * 2 + [Shades.spanning(outcome)]
    named = list(zip(names, (*operands, outcome), strict=True))
    panels = {
        f"{name}  {values.shape}": _with_copies(grid, values, (rows, columns), shade)
        for (name, values), shade in zip(named, shades, strict=True)
    }
    details = [f"{name} {values.shape}" for name, values in named]
    is_repeated = any(values.shape != whole for values in operands)
    usual = "Broadcasting repeats an axis of length 1" if is_repeated else "Equal shapes: nothing is repeated"
    copies = "Numbers in brackets are copies. Broadcasting acts as if they existed, but stores nothing twice."
    return captioned(
        grid.side_by_side(panels, gap=gap),
        title or usual,
        copies if is_repeated else "The tensors are combined element by element.",
        f"{details[0]} and {details[1]} give {details[2]}.",
    )


def _with_copies(grid: Grid, values: Floats, whole: tuple[int, int], shades: Shades) -> list[Cell]:
    """Return the cells of a table that is broadcast to the shape `whole`, with the copies in brackets."""
    table = np.atleast_2d(values)
    stretched = np.broadcast_to(table, whole)
    cells = grid.numbers(stretched, shades)
    for number, (row, column) in enumerate(np.ndindex(*whole)):
        if row >= table.shape[0] or column >= table.shape[1]:
            value = float(stretched[row, column])
            shown = f"({short(value)})" if grid.has_room else ""
            cells[number] = Cell(EQUAL_FILL, shown, f"{exact(value)}, a copy", ink=MASKED_INK)
    return cells
