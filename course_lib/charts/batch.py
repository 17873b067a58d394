"""Batches as tables of tokens: what stands where, and what is only padding."""

from collections.abc import Collection, Mapping, Sequence

import altair as alt
import pandas as pd

from course_lib.charts.colours import MASKED_FILL, MASKED_INK, ink_on
from course_lib.charts.theme import WIDTH, Picture, panel_title

ROW, SMALL_ROW, ROOM_FOR_WORDS, LARGEST_CELL, GAP = 24, 9, 34, 78, 26
"""Pixels: a row with words and without, the width a word needs, a cell at most, what is between tables."""

WORD, MARK = "#c6dbef", "#ffd8a8"


def batch_tables(
    tables: Mapping[str, Sequence[Sequence[str]]],
    *,
    padding: str = "<pad>",
    marks: Collection[str] = ("<start>", "<end>"),
    title: str = "What stands where in a batch",
) -> Picture:
    """One table for each name, a row for each sentence, a cell for each token.

    `tables` maps a name to rows of equal length. Cells that hold `padding` are grey and crossed; those that
    hold one of the `marks` are orange. Tokens are written where there is room. Raises ValueError for no
    table, or rows that are not equally long.
    """
    if not tables:
        raise ValueError("tables: expected at least one, got none.")
    for name, rows in tables.items():
        widths = {len(row) for row in rows}
        if len(widths) != 1 or 0 in widths:
            raise ValueError(
                f"tables[{name!r}]: expected rows of one length, got the lengths {sorted(widths)}."
            )
    most = max(len(rows[0]) for rows in tables.values())
    cell = min(LARGEST_CELL, WIDTH / most)
    panels = [_table(name, rows, cell, padding, set(marks)) for name, rows in tables.items()]
    told = [f"{name}: {_told(rows, padding)}" for name, rows in tables.items()]
    return alt.vconcat(*panels, spacing=GAP).properties(
        title=alt.Title(title, subtitle="Blue: words. Orange: start and end. Grey: padding."),
        description=f"{title}. {'; '.join(told)}.",
    )


def _told(rows: Sequence[Sequence[str]], padding: str) -> str:
    places = len(rows) * len(rows[0])
    padded = sum(token == padding for row in rows for token in row)
    return f"{len(rows)} rows of {len(rows[0])} tokens, {padded / places:.0%} of it padding"


def _table(
    name: str, rows: Sequence[Sequence[str]], cell: float, padding: str, marks: set[str]
) -> alt.LayerChart:
    written = cell >= ROOM_FOR_WORDS
    height = ROW if written else SMALL_ROW
    frame = pd.DataFrame(
        {
            "row": row,
            "column": column,
            "token": token,
            "shown": "×" if token == padding else _short(token, cell),
            "fill": (fill := MASKED_FILL if token == padding else MARK if token in marks else WORD),
            "ink": MASKED_INK if token == padding else ink_on(fill),
        }
        for row, tokens in enumerate(rows)
        for column, token in enumerate(tokens)
    )
    base = alt.Chart(frame).encode(
        x=alt.X("column:O", axis=None),
        y=alt.Y("row:O", axis=None),
        tooltip=[
            alt.Tooltip("token:N"),
            alt.Tooltip("row:Q", title="sentence"),
            alt.Tooltip("column:Q", title="position"),
        ],
    )
    boxes = base.mark_rect(stroke="white", strokeWidth=1 if written else 0.4, aria=written).encode(
        color=alt.Color("fill:N", scale=None)
    )
    layers = [boxes]
    if written:
        text = base.mark_text(fontSize=11, aria=False).encode(
            text="shown:N", color=alt.Color("ink:N", scale=None, legend=None)
        )
        layers.append(text)
    return alt.LayerChart(layer=layers, width=cell * len(rows[0]), height=height * len(rows)).properties(
        title=panel_title(f"{name}: {_told(rows, padding)}")
    )


def _short(token: str, cell: float) -> str:
    most = int(cell / 6.4)
    return token if len(token) <= most else f"{token[: most - 1]}…"
