"""Attention weights: who looks at whom."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Floats, Numbers, as_words, from_tensor, mask_from_tensor
from course_lib.charts.cells import WEIGHT_SHADES, Grid, cell_size, exact, hundredths, notes_on
from course_lib.charts.theme import WIDTH, Picture, panel_title

PANEL_GAP = 14
LABEL_ROOM = 150
"""Pixels kept free for the words beside the rows and for the legend."""


def attention_heatmap(
    weights: Numbers,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    mask: Numbers | None = None,
    panels: Sequence[str] | None = None,
    title: str = "Which words does each word look at?",
) -> Picture:
    """Attention weights as cells: a row for each query, a column for each key.

    `weights` is (Q, K), or (P, Q, K) for P matrices side by side, such as the heads of one layer, whose
    names are `panels`. `mask` is boolean, True for "may look", and stretches to the weights; masked cells
    are crossed out, and one that got weight all the same is marked. Cells say their weight where there is
    room. Raises ValueError when shapes, words or panels do not fit.
    """
    matrices = from_tensor(weights, "weights", (2, 3))
    allowed = None if mask is None else mask_from_tensor(mask, matrices.shape)
    if matrices.ndim == 2:
        if panels is not None:
            raise ValueError(
                f"panels: expected none for one matrix of shape {matrices.shape}, got {list(panels)}."
            )
        matrices, allowed = matrices[None], None if allowed is None else allowed[None]
    count, query_count, key_count = matrices.shape
    rows, columns = as_words(queries, query_count, "queries"), as_words(keys, key_count, "keys")
    numbers = [str(number) for number in range(1, count + 1)]
    names = numbers if panels is None else as_words(panels, count, "panels")

    across = min(count, 4)
    room = WIDTH - LABEL_ROOM - PANEL_GAP * (across - 1)
    grid = Grid(rows, columns, cell_size(key_count * across, room), ("query", "key", "weight"))
    masks = [None] * count if allowed is None else list(allowed)
    tables = [
        grid.table(matrix, WEIGHT_SHADES, one_mask, hundredths)
        for matrix, one_mask in zip(matrices, masks, strict=True)
    ]
    grids = [
        grid.draw(
            table, ramp=WEIGHT_SHADES, row_labels=number % across == 0, column_labels=number < across
        ).properties(title=panel_title(names[number]) if count > 1 else "")
        for number, table in enumerate(tables)
    ]
    return alt.concat(*grids, columns=across, spacing=PANEL_GAP).properties(
        title=alt.Title(title, subtitle=[_about_rows(matrices), *notes_on(pd.concat(tables))]),
        description=f"{title} {_strongest(matrices, rows, columns, names)}",
    )


def _about_rows(matrices: Floats) -> str:
    """What holds for the rows of these very weights; a claim that a broken result disproves is not made."""
    sums = matrices.sum(axis=-1)
    ones, zeros = np.isclose(sums, 1, atol=0.01), (matrices == 0).all(axis=-1)
    if ones.all():
        return "Each row is a query, and its weights sum to 1."
    if (ones | zeros).all():
        return "Each row is a query. Its weights sum to 1, or to 0 where it may look at nothing."
    return "Each row is a query. Not every row sums to 1."


def _strongest(matrices: Floats, rows: list[str], columns: list[str], names: list[str]) -> str:
    """The heat map in words: where each query looks most."""
    told = []
    for matrix, name in zip(matrices, names, strict=True):
        pairs = [
            f"{row} to {columns[int(np.argmax(weights))]} ({exact(round(float(weights.max()), 2))})"
            for row, weights in zip(rows, np.nan_to_num(matrix), strict=True)
        ]
        told.append((f"Panel {name}: " if len(names) > 1 else "") + ", ".join(pairs))
    return "Each query's largest weight: " + "; ".join(told) + "."
