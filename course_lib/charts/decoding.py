"""A sentence written word by word: at each step the probability of every word, and which one was taken."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Numbers, as_words, from_tensor
from course_lib.charts.cells import word_axis
from course_lib.charts.colours import ALARM_INK, AMOUNTS, ink_on, on_ramp
from course_lib.charts.theme import WIDTH, Picture

NAMES, LARGEST_CELL, ROW = 110, 44, 26
"""Pixels: what the rows' names take, the width of a cell at most, and its height."""


def decoding_steps(
    probabilities: Numbers,
    words: Sequence[str],
    chosen: Sequence[int],
    *,
    title: str = "Word by word: what the model thinks, and what it writes",
) -> Picture:
    """A table with one row a step and one column a word, darker where the model gives it more.

    `probabilities` has the shape (steps, words); `chosen` holds the index of the word taken at each step,
    which is framed. Raises ValueError where the sizes don't
    fit, a row doesn't sum to one, or an index is no word's.
    """
    table = from_tensor(probabilities, "probabilities", [2])
    steps, count = table.shape
    words = as_words(words, count, "words")
    taken = [int(index) for index in chosen]
    if len(taken) != steps or not all(0 <= index < count for index in taken):
        raise ValueError(f"chosen: expected {steps} indices of words, from 0 to {count - 1}, got {taken}.")
    if not np.allclose(table.sum(axis=1), 1.0, atol=1e-3) or (table < 0).any():
        raise ValueError(
            "probabilities: expected rows that sum to one. Take the softmax of the logits first."
        )
    largest = float(table.max())
    cell = min(LARGEST_CELL, (WIDTH - NAMES) // count)
    cells = pd.DataFrame(
        {
            "step": step,
            "column": column,
            "word": words[column],
            "probability": table[step, column],
            "fill": (fill := on_ramp(AMOUNTS, table[step, column] / largest)),
            "ink": ink_on(fill),
            "written": f"{table[step, column]:.2f}".removeprefix("0") if cell >= 28 else "",
            "taken": "taken" if column == taken[step] else "",
        }
        for step in range(steps)
        for column in range(count)
    )
    rows = [f"step {step + 1}" for step in range(steps)]
    sentence = " ".join(words[index] for index in taken)
    return _drawn(cells, words, rows, cell).properties(
        title=alt.Title(title, subtitle=[f"Written: {sentence}", "A frame marks the word that is taken."]),
        description=f"{title}. Written: {sentence}. {_told(cells)}",
    )


def _drawn(cells: pd.DataFrame, words: list[str], rows: list[str], cell: int) -> alt.LayerChart:
    base = alt.Chart(cells).encode(
        x=alt.X(
            "column:O",
            title=None,
            scale=alt.Scale(domain=list(range(len(words)))),
            axis=word_axis(words, cell, orient="top"),
        ),
        y=alt.Y(
            "step:O",
            title=None,
            scale=alt.Scale(domain=list(range(len(rows)))),
            axis=word_axis(rows, ROW, orient="left"),
        ),
        tooltip=[
            alt.Tooltip("word:N"),
            alt.Tooltip("probability:Q", format=".3f"),
            alt.Tooltip("taken:N", title=" "),
        ],
    )
    boxes = base.mark_rect(stroke="white").encode(fill=alt.Fill("fill:N", scale=None))
    numbers = base.mark_text(fontSize=11, aria=False).encode(
        text="written:N", color=alt.Color("ink:N", scale=None, legend=None)
    )
    frames = base.transform_filter("datum.taken !== ''").mark_rect(
        filled=False, stroke=ALARM_INK, strokeWidth=2.5, aria=False
    )
    return alt.LayerChart(layer=[boxes, numbers, frames], width=cell * len(words), height=ROW * len(rows))


def _told(cells: pd.DataFrame) -> str:
    taken = cells[cells["taken"] != ""]
    return " ".join(
        f"Step {step + 1}: {word} at {probability:.2f}."
        for step, word, probability in zip(taken["step"], taken["word"], taken["probability"], strict=True)
    )
