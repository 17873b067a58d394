"""How much each token of a batch counts in the mean, under several ways to take the mean."""

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np

from course_lib.charts.arrays import Floats, Numbers, as_words, from_tensor, mask_from_tensor
from course_lib.charts.cells import Grid, Shades, cell_size, short
from course_lib.charts.theme import WIDTH, Picture, panel_title

PANEL_GAP, LABEL_ROOM = 24, 170
"""Pixels between two panels, and what is kept free for the names of the rows and the legend."""


def token_counts(
    counts: Mapping[str, Numbers],
    real: Numbers,
    sentences: Sequence[str],
    *,
    title: str = "How much does each token count?",
) -> Picture:
    """A panel for each way to take the mean: a row for each sentence, a cell for each token.

    Each entry of `counts` is a matrix of (sentences, places), 1 where a token counts as much as the average
    one. `real` is boolean and of the same shape, False at padding, which is crossed out. `sentences` names
    the rows. Three panels at most. Raises ValueError where shapes or names don't fit, or for numbers below 0.
    """
    if not 1 <= len(counts) <= 3:
        raise ValueError(f"counts: expected 1 to 3 panels, got {len(counts)}.")
    matrices = {name: from_tensor(matrix, name, (2,)) for name, matrix in counts.items()}
    shape = next(iter(matrices.values())).shape
    for name, matrix in matrices.items():
        if matrix.shape != shape:
            raise ValueError(f"{name}: expected the shape {shape} of the first panel, got {matrix.shape}.")
        if not (np.isfinite(matrix).all() and (matrix >= 0).all()):
            raise ValueError(f"{name}: expected finite numbers of 0 or more.")
    kept = mask_from_tensor(real, shape)
    rows = as_words(sentences, shape[0], "sentences")
    room = (WIDTH - LABEL_ROOM - PANEL_GAP * (len(matrices) - 1)) // len(matrices)
    grid = Grid(
        rows,
        [str(place + 1) for place in range(shape[1])],
        cell_size(shape[1], room, largest=34),
        ("sentence", "place", "counts"),
    )
    shades = Shades.spanning(*matrices.values())
    panels = [
        grid.draw(
            grid.table(np.where(kept, matrix, 0.0), shades, kept, _times),
            ramp=shades,
            row_labels=number == 0,
        ).properties(title=panel_title(name))
        for number, (name, matrix) in enumerate(matrices.items())
    ]
    lines = ["1 is as much as the average token.", "×: padding, which does not count."]
    return alt.hconcat(*panels, spacing=PANEL_GAP).properties(
        title=alt.Title(title, subtitle=lines[: 1 if kept.all() else 2]),
        description=f"{title} {_told(matrices, kept, rows)}",
    )


def _times(value: float) -> str:
    return short(round(value, 1)) if round(value, 1).is_integer() else f"{value:.1f}"


def _told(matrices: Mapping[str, Floats], kept: np.ndarray, rows: list[str]) -> str:
    """The mean count of a token in each sentence."""
    told = []
    for name, matrix in matrices.items():
        means = [
            f"{row} {float(counts[own].mean()):.2f}" if own.any() else f"{row} none"
            for row, counts, own in zip(rows, matrix, kept, strict=True)
        ]
        told.append(f"{name}: a token of {', '.join(means)}")
    return "; ".join(told) + "."
