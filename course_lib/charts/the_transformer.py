"""The charts of lesson 06: shapes on their way through the model, and greedy decoding."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.inputs import Numbers, as_words, from_tensor
from course_lib.charts.marks import Canvas, Cell, Grid, Path, captioned, tips
from course_lib.charts.theme import ALARM_INK, AMOUNTS, QUIET_INK, WIDTH, Picture, on_ramp

Stages: TypeAlias = Sequence[tuple[str, Sequence[int]]]
"""The stages of a stack, from its input upwards, each with a name and a shape."""

ROW, BAR, GAP = 38, 22, 24
"""Pixels: the height of a stage and of its bar, and the gap between the two columns."""

NAMES, LETTER = 150, 6.1
"""Pixels: the width of the stages' names, and of an average letter in them."""

NARROW, WIDE = 56, 168
"""Pixels: the width of a bar for tokens, and for the longest vectors."""

FILLS = {"tokens": "#d8dce1", "usual": "#c6dbef", "other": "#ffd8a8"}


def shape_flow(
    encoder: Stages,
    decoder: Stages,
    *,
    memory_to: Sequence[str],
) -> Picture:
    """Draw the output shapes of the stages as bars, in one column for the encoder and one for the decoder.

    The columns are read upwards. A bar is wider for longer vectors, on a logarithmic scale. A shape is
    (sentences, positions, features), or (sentences, positions) for tokens, which are not vectors yet.
    `memory_to` names the decoder's stages that take their keys and values from the encoder's last stage.
    Raises ValueError for a shape that doesn't have two or three axes, for a length below 1, and for an
    unknown name in `memory_to`.
    """
    columns = {"encoder": encoder, "decoder": decoder}
    for column, stages in columns.items():
        for name, shape in stages:
            if len(shape) not in (2, 3) or min(shape) < 1:
                raise ValueError(
                    f"{column}, {name}: expected the shape (sentences, positions) or (sentences, positions, "
                    f"features), without zeros, got {tuple(shape)}."
                )
    known = [name for name, _ in decoder]
    if unknown := sorted(set(memory_to) - set(known)):
        raise ValueError(
            f"memory_to: expected stages of the decoder, got {unknown}. Its stages are {', '.join(known)}."
        )
    rows = max(len(encoder), len(decoder))
    longest = max(_features(shape) for stages in columns.values() for _, shape in stages)
    usual = encoder[-1][1][-1]
    table = pd.DataFrame(
        _stage(column, name, shape, left, (rows - number) * ROW, longest, usual)
        for left, (column, stages) in zip((0, (WIDTH + GAP) / 2), columns.items(), strict=True)
        for number, (name, shape) in enumerate(stages)
    )
    canvas = Canvas(WIDTH, rows * ROW + 6)
    details = [
        f"The {column}, from its input on: "
        + ", ".join(f"{name} {' × '.join(map(str, shape))}" for name, shape in stages)
        for column, stages in columns.items()
    ]
    details.append(f"Keys and values come from the encoder in {', '.join(memory_to)}")
    lines = [
        "Read it upwards. The longer a bar, the more numbers each position has (log scale).",
        f"Grey: tokens. Blue: {usual} numbers, as in most stages. Orange: a different number.",
    ]
    layers = [*_arrows(canvas, table, memory_to), *_bars(canvas, table)]
    chart = alt.LayerChart(layer=layers, width=canvas.width, height=canvas.height)
    return captioned(
        chart, "From tokens to logits: the shape of the numbers", lines, f"{'. '.join(details)}."
    )


def _features(shape: Sequence[int]) -> int:
    return shape[2] if len(shape) == 3 else 1


def _stage(
    column: str, name: str, shape: Sequence[int], left: float, bottom: float, longest: int, usual: int
) -> dict[str, str | float]:
    """Return the table row of a stage: its texts, its colour and its edges in pixels.

    `left` is the left edge of its column, and `bottom` the bottom edge of its bar.
    """
    kind = "tokens" if len(shape) == 2 else "usual" if shape[2] == usual else "other"
    size = NARROW + (WIDE - NARROW) * math.log(_features(shape)) / max(math.log(longest), 1e-9)
    middle = left + NAMES + 8 + WIDE / 2
    axes = zip(shape, ("sentences", "positions", "features"), strict=False)
    return {
        "column": column,
        "name": name,
        "shape": " × ".join(map(str, shape)),
        "details": ", ".join(f"{count} {axis}" for count, axis in axes),
        "fill": FILLS[kind],
        "left": middle - size / 2,
        "right": middle + size / 2,
        "middle": middle,
        "names": left + NAMES,
        "top": bottom - BAR,
        "bottom": bottom,
        "text": bottom - BAR / 2,
    }


def _bars(canvas: Canvas, table: pd.DataFrame) -> list[alt.Chart]:
    base = alt.Chart(table)
    bars = base.mark_rect(cornerRadius=4, stroke=QUIET_INK, strokeWidth=0.8).encode(
        x=canvas.x("left"),
        x2="right:Q",
        y=canvas.y("top"),
        y2="bottom:Q",
        fill=alt.Fill("fill:N", scale=None),
        tooltip=tips(("column:N", "column"), ("name:N", "stage"), ("details:N", "output")),
    )
    base = base.encode(y=canvas.y("text"))
    names = base.mark_text(align="right", aria=False).encode(x=canvas.x("names"), text="name:N")
    shapes = base.mark_text(fontWeight="bold", aria=False).encode(x=canvas.x("middle"), text="shape:N")
    return [bars, names, shapes]


def _arrows(canvas: Canvas, table: pd.DataFrame, memory_to: Sequence[str]) -> list[alt.Chart]:
    """Draw an arrow from each stage to the next one in its column, and two to each stage in `memory_to`.

    These two come from the encoder's last stage and stand for the keys and the values.
    """
    stages = table.to_dict("records")
    upward = [
        Path(((lower["middle"], lower["top"]), (lower["middle"], upper["bottom"])))
        for lower, upper in pairwise(stages)
        if lower["column"] == upper["column"]
    ]
    end = [stage for stage in stages if stage["column"] == "encoder"][-1]
    memory, signs = [], []
    for reader in stages:
        if reader["column"] == "decoder" and reader["name"] in memory_to:
            for side, sign in ((-5, "K"), (5, "V")):
                start, stop = end["text"] + side, reader["text"] + side
                lane = (WIDTH - GAP) / 2 + 2 - side
                name = reader["names"] - LETTER * len(reader["name"]) - 5
                memory.append(Path(((end["right"], start), (lane, start), (lane, stop), (name, stop))))
                signs.append((name - 14, reader["text"] + 2.6 * side, sign))
    return [*canvas.arrows(upward), *canvas.arrows(memory, [4, 3]), canvas.texts(signs)]


def decoding_steps(probabilities: Numbers, words: Sequence[str], chosen: Sequence[int]) -> Picture:
    """Draw the probability of each word (columns) at each decoding step (rows). Darker is more probable.

    `probabilities` is (steps, words); `chosen` holds the index of the word selected at each step, which is
    framed. Raises ValueError if `probabilities` doesn't have two axes or a column for each of `words`, or if
    they aren't finite or their rows don't sum to one.
    """
    table = from_tensor(probabilities, "probabilities", (2,), finite=True)
    if not np.allclose(table.sum(axis=1), 1.0, atol=1e-3):
        raise ValueError("probabilities: expected rows that sum to 1. Apply softmax to the logits first.")
    steps, count = table.shape
    words = as_words(words, count, "words")
    rows, names = [f"step {step + 1}" for step in range(steps)], ("", "", "probability")
    grid = Grid(rows, words, min(44, (WIDTH - 110) // count), names, row_height=26, frame=ALARM_INK)
    largest = float(table.max())
    cells = [
        Cell(
            on_ramp(AMOUNTS, value / largest),
            f"{value:.2f}".removeprefix("0") if grid.has_room else "",
            f"{value:.3f}{', chosen' if column == chosen[step] else ''}",
            framed=column == chosen[step],
        )
        for (step, column), value in np.ndenumerate(table)
    ]
    sentence = " ".join(words[index] for index in chosen)
    details = [
        f"Step {step + 1}: {words[index]} at {table[step, index]:.2f}." for step, index in enumerate(chosen)
    ]
    lines = [f"Written: {sentence}", "A frame marks the word that is chosen."]
    return captioned(
        grid.draw(cells),
        "Word by word: what the model expects, and what it writes",
        lines,
        f"Written: {sentence}. {' '.join(details)}",
    )
