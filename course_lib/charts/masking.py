"""What a mask does to attention: scores, mask, weights, from left to right."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from course_lib.charts.arrays import Booleans, Floats, Numbers, as_words, from_tensor, mask_from_tensor
from course_lib.charts.cells import WEIGHT_SHADES, Grid, Shades, cell_size, exact, hundredths, notes_on, short
from course_lib.charts.colours import ALARM_INK, INK
from course_lib.charts.mask_panels import mask_cells
from course_lib.charts.theme import WIDTH, Picture, panel_title

SIDE_ROOM = 250
"""Pixels kept free for the words beside the rows, the gaps and the row sums."""


def mask_effect(
    scores: Numbers,
    mask: Numbers,
    weights: Numbers,
    *,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    title: str = "A mask takes keys out of the softmax",
) -> Picture:
    """Three panels of one (Q, K) attention: the scores, the mask, and the weights with the sum of each row.

    `mask` is boolean, True for "may look", and stretches to (Q, K). A masked cell is crossed out among the
    weights; one that got weight all the same, or that holds no number, is marked. `queries` and `keys` are
    the words, by default their numbers. Raises ValueError when the shapes do not fit.
    """
    score_matrix = from_tensor(scores, "scores", (2,))
    weight_matrix = from_tensor(weights, "weights", (2,))
    if score_matrix.shape != weight_matrix.shape:
        raise ValueError(
            f"weights: expected the shape of the scores, {score_matrix.shape}, got {weight_matrix.shape}."
        )
    allowed = mask_from_tensor(mask, score_matrix.shape)
    query_count, key_count = score_matrix.shape
    rows = as_words(_numbers(query_count) if queries is None else queries, query_count, "queries")
    columns = as_words(_numbers(key_count) if keys is None else keys, key_count, "keys")
    cell = cell_size(3 * key_count, WIDTH - SIDE_ROOM)
    shades = Shades.spanning(score_matrix)

    score_grid, mask_grid, weight_grid = (
        Grid(rows, columns, cell, ("query", "key", name)) for name in ("score", "mask", "weight")
    )
    score_table = score_grid.table(score_matrix, shades)
    weight_table = weight_grid.table(weight_matrix, WEIGHT_SHADES, allowed, hundredths)
    panels = [
        score_grid.draw(score_table).properties(title=panel_title("1. scores")),
        mask_grid.draw(mask_cells(mask_grid, allowed), row_labels=False).properties(
            title=panel_title("2. mask")
        ),
        weight_grid.draw(weight_table, row_labels=False).properties(title=panel_title("3. weights")),
    ]
    sums = _row_sums(weight_matrix, allowed, rows, cell)
    lines = ["Each row is a query. A tick: it may look at this key. ×: it may not."]
    if not score_grid.has_room:
        lines.append(
            f"Scores: brown is below zero, blue above, up to {short(shades.high)}. Weights: darker is more."
        )
    lines += notes_on(pd.concat([score_table, weight_table]).query("kind != 'masked'"))
    return alt.hconcat(*panels, sums, spacing=16).properties(
        title=alt.Title(title, subtitle=lines), description=f"{title}. {_told(weight_matrix, allowed, rows)}"
    )


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def _row_sums(weights: Floats, allowed: Booleans, rows: list[str], cell: int) -> alt.Chart:
    """One line a row: what its weights sum to, and why where that isn't 1."""
    frame = pd.DataFrame(
        {
            "row": range(len(rows)),
            "query": rows,
            "sum": [exact(total) for total in weights.sum(axis=-1)],
            "shown": [_sum_in_words(*row) for row in zip(weights, allowed, strict=True)],
        }
    )
    frame["ink"] = [ALARM_INK if "!" in shown else INK for shown in frame["shown"]]
    return (
        alt.Chart(frame)
        .mark_text(align="left", fontSize=12)
        .encode(
            x=alt.value(0),
            y=alt.Y("row:O", axis=None, scale=alt.Scale(domain=list(range(len(rows))))),
            text="shown:N",
            color=alt.Color("ink:N", scale=None),
            tooltip=["query:N", alt.Tooltip("sum:N", title="sum of the weights")],
        )
        .properties(
            width=104,
            height=cell * len(rows),
            title=alt.Title("row sums", fontSize=13, anchor="start", offset=6),
        )
    )


def _sum_in_words(weights: Floats, allowed: Booleans) -> str:
    total = float(weights.sum())
    if not allowed.any():
        return "0  (sees nothing)" if total == 0 else f"{hundredths(total)}! sees nothing"
    return hundredths(total) if abs(total - 1) < 0.01 else f"{hundredths(total)}! not 1"


def _told(weights: Floats, allowed: Booleans, rows: list[str]) -> str:
    """The picture in words: how many keys each query sees and what its weights sum to."""
    lines = [
        f"{row} may look at {int(open_row.sum())} of {len(open_row)} keys, its weights sum to {total:.4g}"
        for row, open_row, total in zip(rows, allowed, weights.sum(axis=-1).tolist(), strict=True)
    ]
    return "; ".join(lines) + "."
