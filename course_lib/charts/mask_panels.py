"""Masks side by side: who may look at whom, in each of them and in all together."""

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Booleans, Numbers, as_words, mask_from_tensor
from course_lib.charts.cells import WEIGHT_SHADES, Grid, cell_size
from course_lib.charts.colours import AMOUNTS, ink_on
from course_lib.charts.theme import WIDTH, Picture, panel_title

ROOM_BESIDE, GAP = 120, 26
"""Pixels kept free for the words beside the rows, and between two panels."""


def mask_panels(
    masks: Mapping[str, Numbers],
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    *,
    title: str = "Who may look at whom?",
) -> Picture:
    """One panel for each mask of one sentence: a row for each query, a column for each key.

    `masks` maps a name to a boolean mask, True for "may look", that stretches to (Q, K): one of shape (1, K)
    has the same row for every query. A first axis of one, (1, Q, K), is left out. `queries` and `keys` are
    the words, which are the same in self-attention. Raises ValueError where there is no mask, or where shapes
    and words do not fit.
    """
    if not masks:
        raise ValueError("masks: expected at least one mask by name, got none.")
    columns = list(queries if keys is None else keys)
    rows, columns = as_words(queries, len(queries), "queries"), as_words(columns, len(columns), "keys")
    shape = (1, len(rows), len(columns))
    allowed = {name: mask_from_tensor(mask, shape)[0] for name, mask in masks.items()}
    room = WIDTH - ROOM_BESIDE - GAP * (len(masks) - 1)
    grid = Grid(
        rows, columns, cell_size(len(masks) * len(columns), room, 36), ("query", "key", "may it look?")
    )
    panels = [
        grid.draw(mask_cells(grid, mask), row_labels=number == 0).properties(title=panel_title(name))
        for number, (name, mask) in enumerate(allowed.items())
    ]
    lines = ["Each row is a query. A tick: it may look at this key. ×: it may not."]
    told = "; ".join(f"{name}: {int(mask.sum())} of {mask.size} pairs" for name, mask in allowed.items())
    return alt.hconcat(*panels, spacing=GAP).properties(
        title=alt.Title(title, subtitle=[*lines, f"Allowed are, in {told}."]),
        description=f"{title} Allowed are, in {told}. {_rows_told(allowed, rows)}",
    )


def mask_cells(grid: Grid, allowed: Booleans) -> pd.DataFrame:
    """A mask as cells, for `Grid.draw`: an open one is pale with a tick, a closed one grey with a cross."""
    table = grid.table(np.zeros(allowed.shape), WEIGHT_SHADES, allowed)
    is_open = table["kind"] == "number"
    table.loc[is_open, ["fill", "ink", "shown", "told"]] = [AMOUNTS[1], ink_on(AMOUNTS[1]), "✓", "may look"]
    table.loc[~is_open, "told"] = "may not look"
    return table


def _rows_told(allowed: dict[str, Booleans], rows: list[str]) -> str:
    """How many keys each query sees under the last mask, in words."""
    name, mask = list(allowed.items())[-1]
    counts = ", ".join(f"{row} {int(keys.sum())}" for row, keys in zip(rows, mask, strict=True))
    return f"Keys that each query sees under {name}: {counts}."
