"""Where the numbers go when vectors are cut into heads: each cell says from which word it came."""

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Floats, Numbers, as_words, from_tensor
from course_lib.charts.cells import Grid, cell_size
from course_lib.charts.colours import CATEGORIES, INK, ink_on, on_ramp
from course_lib.charts.theme import WIDTH, Picture, panel_title

ROOM_BESIDE, PANEL_GAP = 110, 22
"""Pixels kept free for the words beside the rows, and between two heads."""

TINTS = [on_ramp(("#ffffff", colour), 0.45) for colour in CATEGORIES[:6]]
"""A colour for each word, pale enough to write on."""


def features_in_heads(
    cuts: Mapping[str, Numbers],
    words: Sequence[str],
    *,
    title: str = "Which features of which word does each head get?",
) -> Picture:
    """One line of panels for each way to cut a sentence into heads, one panel for each head.

    `cuts` maps a name to heads of shape (H, L, D/H), made from a sentence in which feature f of word i is
    the number i * D + f, so that each number says where it came from: `torch.arange(L * D)`. `words` are the
    L words, six at most. A cell says its word and feature, and has the colour of its word. The row of a panel
    belongs to the word beside it: a cell that came from another word is framed.
    Raises ValueError where not each number occurs once, or the words do not fit.
    """
    if not cuts:
        raise ValueError("cuts: expected at least one way to cut a sentence, got none.")
    lines: list[alt.HConcatChart] = []
    told: list[str] = []
    for name, numbers in cuts.items():
        heads = from_tensor(numbers, f"cuts[{name!r}]", (3,))
        spoken = as_words(words, heads.shape[1], "words")
        _check(heads, name)
        tables = [_cells(head, spoken, heads.shape[0]) for head in heads]
        lines.append(_line(name, tables, spoken, heads.shape[2]))
        moved = sum(int(table["moved"].sum()) for table in tables)
        told.append(f"{name}, {heads.shape[0]} heads: {moved} of {heads.size} in the row of another word")
    subtitle = "A cell says from which word and feature its number comes. Framed: the row is another word's."
    return alt.vconcat(*lines, spacing=20).properties(
        title=alt.Title(title, subtitle=subtitle), description=f"{title} {'; '.join(told)}."
    )


def _check(heads: Floats, name: str) -> None:
    if not np.array_equal(np.sort(heads, axis=None), np.arange(heads.size)):
        raise ValueError(
            f"cuts[{name!r}]: expected each of the numbers 0 to {heads.size - 1} once, to know where it came "
            "from. Cut torch.arange(L * D)."
        )
    if heads.shape[1] > len(TINTS):
        raise ValueError(f"words: expected {len(TINTS)} at most, a colour for each, got {heads.shape[1]}.")


def _cells(head: Floats, words: list[str], heads: int) -> pd.DataFrame:
    """One table row for each number of a head, as `Grid.draw` reads it."""
    rows, columns = np.indices(head.shape)
    origins, features = np.divmod(head.astype(int), heads * head.shape[1])
    table = pd.DataFrame({"row": rows.ravel(), "column": columns.ravel()})
    table["row name"] = [words[row] for row in table["row"]]
    table["column name"] = table["column"].astype(str)
    table["moved"] = (origins != rows).ravel()
    table["fill"] = [TINTS[origin] for origin in origins.ravel()]
    table["ink"] = [ink_on(fill) for fill in table["fill"]]
    pairs = list(zip(origins.ravel(), features.ravel(), strict=True))
    table["shown"] = [f"{words[origin]} {feature}" for origin, feature in pairs]
    table["told"] = [f"feature {feature} of word {origin}, {words[origin]}" for origin, feature in pairs]
    return table


def _line(name: str, tables: list[pd.DataFrame], words: list[str], width: int) -> alt.HConcatChart:
    """The heads of one cut, side by side."""
    count = len(tables)
    room = WIDTH - ROOM_BESIDE - PANEL_GAP * (count - 1)
    grid = Grid(
        words,
        [str(n) for n in range(width)],
        cell_size(count * width, room, 42),
        ("word", "feature", "holds"),
    )
    panels = []
    for number, table in enumerate(tables):
        cells = grid.draw(table, row_labels=number == 0, column_labels=False)
        frames = (
            alt.Chart(table[table["moved"]])
            .mark_rect(filled=False, stroke=INK, strokeWidth=2, clip=True)
            .encode(x="column:O", y="row:O")
        )
        panel = alt.LayerChart(layer=[cells, frames], width=cells.width, height=cells.height)
        panels.append(panel.properties(title=panel_title(f"head {number}" if count > 1 else "all features")))
    return alt.hconcat(*panels, spacing=PANEL_GAP).properties(title=alt.Title(name, fontSize=13, offset=4))
