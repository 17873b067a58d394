"""What a model is told is right: a distribution over the vocabulary for each position."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from course_lib.charts.arrays import Floats, Numbers, as_words, from_tensor
from course_lib.charts.cells import WEIGHT_SHADES, Grid, cell_size, exact, notes_on
from course_lib.charts.colours import INK
from course_lib.charts.theme import WIDTH, Picture

SIDE_ROOM = 210
"""Pixels kept free for the words beside the rows, the sums and the legend."""


def target_distributions(
    targets: Numbers,
    labels: Sequence[str],
    vocabulary: Sequence[str],
    *,
    title: str = "What is the model told to write at each position?",
) -> Picture:
    """Targets as cells: a row for each position, a column for each word, and the sum of each row.

    `targets` is (L, V), `labels` are the L words that should come, `vocabulary` the V words there are. Cells
    say their probability where there is room. Raises ValueError when shapes or words do not fit.
    """
    matrix = from_tensor(targets, "targets", (2,))
    rows = as_words(labels, matrix.shape[0], "labels")
    columns = as_words(vocabulary, matrix.shape[1], "vocabulary")
    cell = cell_size(len(columns), WIDTH - SIDE_ROOM)
    grid = Grid(rows, columns, cell, ("label", "word", "probability"))
    table = grid.table(matrix, WEIGHT_SHADES, write=_written)
    sums = [f"{total:.4g}" for total in matrix.sum(axis=-1).tolist()]
    cells = grid.draw(table, ramp=WEIGHT_SHADES)
    told = [f"{row}: sum {total}" for row, total in zip(rows, sums, strict=True)]
    return alt.hconcat(cells, _sums(rows, sums, cell), spacing=14).properties(
        title=alt.Title(title, subtitle=["Each row is a position, each column a word.", *notes_on(table)]),
        description=f"{title} {'; '.join(told)}. {_extremes(matrix)}",
    )


def _written(value: float) -> str:
    """A probability in few signs: 0.0125 becomes .0125, and an exact zero is a plain 0."""
    return f"{value:.2g}".replace("0.", ".", 1) if 0 < value < 1 else exact(value)


def _sums(rows: list[str], sums: list[str], cell: int) -> alt.Chart:
    frame = pd.DataFrame({"row": range(len(rows)), "label": rows, "sum": sums})
    return (
        alt.Chart(frame)
        .mark_text(align="left", color=INK)
        .encode(
            x=alt.value(0),
            y=alt.Y("row:O", axis=None, scale=alt.Scale(domain=list(range(len(rows))))),
            text="sum:N",
            tooltip=["label:N", alt.Tooltip("sum:N", title="sum of the row")],
        )
        .properties(
            width=50,
            height=cell * len(rows),
            title=alt.Title("sum", fontSize=13, anchor="start", offset=6),
        )
    )


def _extremes(matrix: Floats) -> str:
    return (
        f"The largest probability is {exact(float(matrix.max()))}, the smallest {exact(float(matrix.min()))}."
    )
