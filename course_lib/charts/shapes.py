"""How the shape of the numbers changes on their way through the model, from tokens to logits."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import altair as alt
import pandas as pd

from course_lib.charts.colours import INK, QUIET_INK
from course_lib.charts.theme import WIDTH, Picture

Stages: TypeAlias = Sequence[tuple[str, Sequence[int]]]
"""What stands where, from the input upwards: a name and a shape each."""

ROW, BAR, GAP = 38, 22, 24
"""Pixels: the height of a stage, of its bar, and what is free between the columns."""

NAMES = 150
"""Pixels that the names of the stages take."""

NARROW, WIDE = 56, 168
"""Pixels: the width of a bar for tokens or vectors of one number, and for the longest."""

LETTER = 6.1
"""Pixels: the mean width of a letter in the stages' names."""

FILLS = {"tokens": "#d8dce1", "usual": "#c6dbef", "other": "#ffd8a8"}
AXES = ("sentences", "positions", "features")


def shape_flow(
    encoder: Stages,
    decoder: Stages,
    *,
    memory_to: Sequence[str] = (),
    title: str = "From tokens to logits: what shape the numbers have",
) -> Picture:
    """Two columns of bars, read upwards: what comes out of each part, as wide as its vectors are long.

    A shape is (sentences, positions, features), or (sentences, positions) for tokens, which are no vectors
    yet. `memory_to` names stages of the decoder that also read what the encoder ends on. Raises ValueError
    for a column without stages, a shape of other axes, or a name in `memory_to` that is no stage.
    """
    columns: Mapping[str, Stages] = {"encoder": encoder, "decoder": decoder}
    for name, stages in columns.items():
        _check(name, stages)
    if unknown := sorted(set(memory_to) - {name for name, _ in decoder}):
        raise ValueError(
            f"memory_to: expected names of the decoder's stages, got {unknown}; "
            f"they are {', '.join(name for name, _ in decoder)}."
        )
    rows = max(len(encoder), len(decoder))
    longest = max(_features(shape) for stages in columns.values() for _, shape in stages)
    usual = encoder[-1][1][-1]
    column = (WIDTH - GAP) / 2
    table = pd.DataFrame(
        _row(name, number, stage, number_of_column * (column + GAP), rows, (longest, usual))
        for number_of_column, (name, stages) in enumerate(columns.items())
        for number, stage in enumerate(stages)
    )
    return alt.LayerChart(
        layer=[*_arrows(table), *_memory(table, memory_to), *_bars(table)],
        width=WIDTH,
        height=rows * ROW + 6,
        title=alt.Title(
            title,
            subtitle=[
                "Read it upwards. The longer a bar, the more numbers each position has (log scale).",
                f"Grey: tokens. Blue: {usual} numbers each, as in most places. Orange: another length.",
            ],
        ),
        description=f"{title}. {' '.join(_told(name, stages) for name, stages in columns.items())}",
    )


def _check(column: str, stages: Stages) -> None:
    if not stages:
        raise ValueError(f"{column}: expected at least one stage, got none.")
    for name, shape in stages:
        if len(shape) not in (2, 3) or min(shape) < 1:
            raise ValueError(
                f"{column}, {name}: expected (sentences, positions) or (sentences, positions, features), "
                f"got {tuple(shape)}."
            )


def _features(shape: Sequence[int]) -> int:
    return shape[2] if len(shape) == 3 else 1


def _row(
    column: str,
    number: int,
    stage: tuple[str, Sequence[int]],
    left: float,
    rows: int,
    scale: tuple[int, int],
) -> dict[str, str | float]:
    """Where a stage stands and what it says."""
    name, shape = stage
    longest, usual = scale
    kind = "tokens" if len(shape) == 2 else "usual" if shape[2] == usual else "other"
    size = NARROW + (WIDE - NARROW) * math.log(_features(shape)) / max(math.log(longest), 1e-9)
    middle = left + NAMES + 8 + WIDE / 2
    bottom = (rows - number) * ROW
    return {
        "column": column,
        "name": name,
        "shape": " × ".join(map(str, shape)),
        "told": ", ".join(f"{count} {axis}" for count, axis in zip(shape, AXES, strict=False)),
        "fill": FILLS[kind],
        "left": middle - size / 2,
        "right": middle + size / 2,
        "middle": middle,
        "names": left + NAMES,
        "top": bottom - BAR,
        "bottom": bottom,
        "text": bottom - BAR / 2,
    }


def _across(field: str) -> alt.X:
    return alt.X(f"{field}:Q", axis=None, scale=alt.Scale(domain=[0, WIDTH], nice=False, zero=False))


def _down(field: str, height: float) -> alt.Y:
    return alt.Y(f"{field}:Q", axis=None, scale=alt.Scale(domain=[height, 0], nice=False, zero=False))


def _height(table: pd.DataFrame) -> float:
    return float(table["bottom"].max()) + 6


def _bars(table: pd.DataFrame) -> list[alt.Chart]:
    height = _height(table)
    base = alt.Chart(table)
    bars = base.mark_rect(cornerRadius=4, stroke=QUIET_INK, strokeWidth=0.8).encode(
        x=_across("left"),
        x2="right:Q",
        y=_down("top", height),
        y2="bottom:Q",
        fill=alt.Fill("fill:N", scale=None),
        tooltip=[
            alt.Tooltip("column:N"),
            alt.Tooltip("name:N", title="part"),
            alt.Tooltip("told:N", title="what comes out"),
        ],
    )
    names = base.mark_text(align="right", fontSize=12, color=INK, aria=False).encode(
        x=_across("names"), y=_down("text", height), text="name:N"
    )
    shapes = base.mark_text(align="center", fontSize=12, fontWeight="bold", color=INK, aria=False).encode(
        x=_across("middle"), y=_down("text", height), text="shape:N"
    )
    return [bars, names, shapes]


def _arrows(table: pd.DataFrame) -> list[alt.Chart]:
    """From each stage up to the next."""
    height = _height(table)
    pieces = [
        {"x": lower["middle"], "from": lower["top"], "to": upper["bottom"] + 2}
        for _, stages in table.groupby("column", sort=False)
        for (_, lower), (_, upper) in zip(
            list(stages.iterrows())[:-1], list(stages.iterrows())[1:], strict=True
        )
    ]
    if not pieces:
        return []
    base = alt.Chart(pd.DataFrame(pieces)).encode(x=_across("x"))
    stems = base.mark_rule(color=QUIET_INK, aria=False).encode(y=_down("from", height), y2="to:Q")
    heads = base.mark_point(
        filled=True, color=QUIET_INK, size=34, opacity=1, shape="triangle-up", aria=False
    ).encode(y=_down("to", height))
    return [stems, heads]


def _memory(table: pd.DataFrame, memory_to: Sequence[str]) -> list[alt.Chart]:
    """The way from the encoder's end to the stages that read it."""
    height = _height(table)
    end = table[table["column"] == "encoder"].iloc[-1]
    readers = table[(table["column"] == "decoder") & table["name"].isin(memory_to)]
    if readers.empty:
        return []
    lane = (WIDTH - GAP) / 2 + 2
    corners = pd.DataFrame(
        {"path": number, "place": place, "x": x, "y": y}
        for number, (_, reader) in enumerate(readers.iterrows())
        for place, (x, y) in enumerate(
            [
                (end["right"], end["text"]),
                (lane, end["text"]),
                (lane, reader["text"]),
                (reader["names"] - LETTER * len(reader["name"]) - 8, reader["text"]),
            ]
        )
    )
    line = (
        alt.Chart(corners)
        .mark_line(color=QUIET_INK, strokeDash=[4, 3], strokeJoin="round", aria=False)
        .encode(x=_across("x"), y=_down("y", height), detail="path:N", order="place:Q")
    )
    heads = (
        alt.Chart(corners.groupby("path").tail(1))
        .mark_point(filled=True, color=QUIET_INK, size=34, opacity=1, shape="triangle-right", aria=False)
        .encode(x=_across("x"), y=_down("y", height))
    )
    return [line, heads]


def _told(column: str, stages: Stages) -> str:
    steps = ", ".join(f"{name} {' × '.join(map(str, shape))}" for name, shape in stages)
    return f"The {column}, from its input on: {steps}."
