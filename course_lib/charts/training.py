"""The chart of lesson 09: each token's weight in the loss."""

from collections.abc import Mapping, Sequence

import numpy as np

from course_lib.charts.inputs import Numbers, as_words, from_tensor, mask_from_tensor
from course_lib.charts.marks import Grid, Shades, captioned, cell_size
from course_lib.charts.theme import AMOUNTS, WIDTH, Picture


def token_counts(counts: Mapping[str, Numbers], real: Numbers, sentences: Sequence[str]) -> Picture:
    """Draw a panel for each way to average the loss, with a row for each sentence and a cell for each token.

    Each entry of `counts` (at most three) is a matrix (sentences, positions) of the tokens' weights in the
    loss, relative to the weight of the average token. `real` is boolean and of the same shape, False at
    padding, which is crossed out. `sentences` name the rows. Raises ValueError if there isn't one name for
    each sentence, or if `real` isn't boolean.
    """
    matrices = {name: from_tensor(matrix, name, (2,)) for name, matrix in counts.items()}
    shape = next(iter(matrices.values())).shape
    kept = mask_from_tensor(real, shape)
    rows = as_words(sentences, shape[0], "sentences")
    gap = 24
    room = (WIDTH - 170 - gap * (len(matrices) - 1)) // len(matrices)
    positions = [str(position + 1) for position in range(shape[1])]
    grid = Grid(rows, positions, cell_size(shape[1], room, 34), ("sentence", "position", "counts"))
    # Use only light shades, on which small numbers are easy to read.
    shades = Shades(
        0.0, float(max(matrix.max() for matrix in matrices.values())) or 1.0, (*AMOUNTS[:2], "#9ecae1")
    )
    panels = {
        name: grid.numbers(np.where(kept, matrix, 0.0), shades, kept, _times)
        for name, matrix in matrices.items()
    }
    lines = ["1: as much as the average token.", "×: padding, which does not count."]
    details = []
    for name, matrix in matrices.items():
        means = [
            f"{row} {float(line[own].mean()):.2f}" if own.any() else f"{row} none"
            for row, line, own in zip(rows, matrix, kept, strict=True)
        ]
        details.append(f"{name}: a token of {', '.join(means)}")
    chart = grid.side_by_side(panels, gap=gap, ramp=shades)
    return captioned(
        chart, "How much does each token count?", lines[: 1 if kept.all() else 2], f"{'; '.join(details)}."
    )


def _times(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
