"""The charts of lesson 08: smoothed targets and calibration."""

import math
from collections.abc import Sequence

import altair as alt
import pandas as pd

from course_lib.charts.inputs import Numbers, as_words, check_above, from_tensor
from course_lib.charts.marks import (
    WEIGHT_SHADES,
    Grid,
    beside_rows,
    captioned,
    cell_size,
    exact,
    fixed_x,
    fixed_y,
    notes_on,
    scale_of,
    tips,
)
from course_lib.charts.theme import QUIET_INK, WIDTH, Picture


def target_distributions(targets: Numbers, labels: Sequence[str], vocabulary: Sequence[str]) -> Picture:
    """Draw target distributions as a heat map of positions (rows) and words (columns), with row sums.

    `targets` is (L, V), `labels` are the L correct words, and `vocabulary` is the list of all V words. Raises
    ValueError if `targets` doesn't have two axes, or if the other arguments don't have L and V words.
    """
    matrix = from_tensor(targets, "targets", (2,))
    rows = as_words(labels, matrix.shape[0], "labels")
    columns = as_words(vocabulary, matrix.shape[1], "vocabulary")
    cell = cell_size(len(columns), WIDTH - 210)
    grid = Grid(rows, columns, cell, ("label", "word", "probability"))
    cells = grid.numbers(matrix, WEIGHT_SHADES, write=_probability)
    sums = [f"{total:.4g}" for total in matrix.sum(axis=-1).tolist()]
    panels = grid.draw(cells, ramp=WEIGHT_SHADES), beside_rows(sums, cell, title="sum", width=50)
    lines = ["Each row is a position, named by its label; each column is a word.", *notes_on(cells)]
    details = [f"{row}: sum {total}" for row, total in zip(rows, sums, strict=True)]
    largest, smallest = exact(float(matrix.max())), exact(float(matrix.min()))
    ends = f"The largest probability is {largest}, the smallest {smallest}."
    return captioned(
        alt.hconcat(*panels, spacing=14),
        "Which distribution is the target at each position?",
        lines,
        f"{'; '.join(details)}. {ends}",
    )


def _probability(value: float) -> str:
    """Format a probability compactly: 0.0125 becomes .013, and an exact zero is a plain 0."""
    return f"{value:.2g}".replace("0.", ".", 1) if 0 < value < 1 else exact(value)


SHAPES = ("circle", "square", "diamond", "triangle-up")
BINS, MIN_PREDICTIONS = 10, 20
"""The number of bins for confidences, and the minimum number of predictions for a bin to be drawn."""


def calibration_curves(table: pd.DataFrame) -> Picture:
    """Draw the share of correct predictions against the confidence, with a line of points for each model.

    `table` has one row for each prediction: the `model` (at most four), its `confidence`, which is the
    probability that the model assigned to its prediction, and whether the prediction was `right`. The
    predictions are grouped into ten bins by confidence; a point shows the mean confidence and the share of
    correct predictions of a bin, and is larger for more predictions. Bins with fewer than 20 predictions are
    left out. On the dashed line, confidence and share are equal. Raises ValueError for confidences that
    aren't finite, and if no bin has enough predictions.
    """
    check_above(-math.inf, table, "confidence", "finite confidences")
    names = list(dict.fromkeys(table["model"]))
    legend = alt.Legend(title=None, orient="right", labelLimit=200)
    colour = alt.Color("model:N", scale=scale_of(names), sort=names, legend=legend)
    ticks = [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    x = fixed_x("confidence", 0, 1, alt.Axis(title="confidence of the prediction", format="%", values=ticks))
    y = fixed_y("share", 0, 1, alt.Axis(title="share of correct predictions", format="%", values=ticks))
    base = alt.Chart(_binned(table)).encode(x=x, y=y, color=colour)
    lines = base.mark_line(strokeWidth=1.5, opacity=0.7)
    dots = base.mark_point(filled=True, opacity=1).encode(
        shape=alt.Shape("model:N", scale=scale_of(names, SHAPES), sort=names, legend=legend),
        size=alt.Size("predictions:Q", scale=alt.Scale(range=[30, 300]), legend=None),
        tooltip=tips(
            ("model:N", "model"),
            ("confidence:Q", "mean confidence", ".1%"),
            ("share:Q", "share of correct predictions", ".1%"),
            ("predictions:Q", "predictions", ","),
        ),
    )
    ends = pd.DataFrame({"confidence": [0, 1], "share": [0, 1]})
    diagonal = alt.Chart(ends).mark_line(strokeDash=[5, 4], color=QUIET_INK).encode(x=x, y=y)
    notes = [
        alt.Chart(pd.DataFrame({"confidence": [confidence], "share": [share], "text": [text]}))
        .mark_text(align="left" if confidence < 0.5 else "right", color=QUIET_INK, fontStyle="italic")
        .encode(x=x, y=y, text="text:N")
        for confidence, share, text in ((0.03, 0.93, "underconfident"), (0.97, 0.05, "overconfident"))
    ]
    details = [
        f"{name}: mean confidence {own['confidence'].mean():.0%}, correct {own['right'].mean():.0%}"
        for name, own in table.groupby("model", sort=False)
    ]
    subtitle = "Larger points hold more predictions. On the dashed line the confidence is justified."
    chart = alt.LayerChart(layer=[diagonal, *notes, lines, dots], width=360, height=340)
    return captioned(
        chart, "How often is a model right when it is confident?", subtitle, f"{'; '.join(details)}."
    )


def _binned(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each model and bin with at least `MIN_PREDICTIONS` predictions.

    Raises ValueError if there is no such bin.
    """
    bins = (table["confidence"] * BINS).astype(int).clip(upper=BINS - 1)
    groups = table.assign(bin=bins).groupby(["model", "bin"], sort=False)
    binned = groups.agg(
        confidence=("confidence", "mean"), share=("right", "mean"), predictions=("right", "size")
    )
    kept = binned[binned["predictions"] >= MIN_PREDICTIONS].reset_index()
    if kept.empty:
        raise ValueError(f"table: expected a bin with {MIN_PREDICTIONS} or more predictions, got none.")
    return kept.sort_values(["model", "confidence"])
