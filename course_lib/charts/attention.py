"""Attention weights: who looks at whom."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Floats, Numbers, as_words, from_tensor, mask_from_tensor
from course_lib.charts.cells import (
    WEIGHT_SHADES,
    cell_size,
    exact,
    grid_frame,
    grid_layers,
    notes_on,
)
from course_lib.charts.theme import WIDTH, Picture

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

    `weights` is (Q, K), or (P, Q, K) for P matrices side by side, such as the heads of one layer, whose names are
    `panels`. `mask` is boolean, True for "may look", and stretches to the weights; masked cells are crossed out, and
    one that got weight all the same is marked. Cells say their weight where there is room.
    Raises ValueError when shapes, words or panels do not fit.
    """
    matrices = from_tensor(weights, "weights", (2, 3))
    allowed = None if mask is None else mask_from_tensor(mask, matrices.shape)
    if matrices.ndim == 2:
        if panels is not None:
            raise ValueError(f"panels: expected none for one matrix of shape {matrices.shape}, got {list(panels)}.")
        matrices, allowed = matrices[None], None if allowed is None else allowed[None]
    count, query_count, key_count = matrices.shape
    rows, columns = as_words(queries, query_count, "queries"), as_words(keys, key_count, "keys")
    names = [f"{number}" for number in range(1, count + 1)] if panels is None else as_words(panels, count, "panels")

    across = min(count, 4)
    cell = cell_size(key_count * across, WIDTH - LABEL_ROOM)
    frame = pd.concat(
        grid_frame(
            matrices[number],
            rows,
            columns,
            WEIGHT_SHADES,
            cell,
            None if allowed is None else allowed[number],
        ).assign(panel=number)
        for number in range(count)
    )
    grid: alt.LayerChart | alt.FacetChart = grid_layers(
        frame, rows, columns, cell, shades=WEIGHT_SHADES, names=("query", "key", "weight")
    )
    if count > 1:
        header = alt.Header(labelExpr=f"{names}[datum.value]", labelOrient="top")
        grid = grid.facet(alt.Facet("panel:O", title=None, header=header), columns=across)
    return grid.properties(
        title=alt.Title(title, subtitle=["Each row is a query, and its weights sum to 1.", *notes_on(frame)]),
        description=f"{title} {_strongest(matrices, rows, columns, names)}",
    )


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
