"""The charts of attention heads: their features, and the attention weights of all heads."""

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.inputs import (
    Floats,
    Numbers,
    as_words,
    check_count,
    from_tensor,
    weights_from_tensor,
)
from course_lib.charts.marks import WEIGHT_SHADES, Cell, Grid, captioned, cell_size, index_x, index_y
from course_lib.charts.theme import CATEGORIES, WIDTH, Picture, on_ramp

TINTS = [on_ramp(("#ffffff", colour), 0.45) for colour in CATEGORIES[:6]]
"""A colour for each word, pale enough to write on."""


def features_in_heads(cuts: Mapping[str, Numbers], words: Sequence[str]) -> Picture:
    """Draw a row of panels for each way to split a sentence into heads, with one panel for each head.

    `cuts` maps a name to heads of shape (H, L, D/H), cut from a sentence in which feature f of word i is the
    number i * D + f, so that each number identifies its origin: `torch.arange(L * D)`. `words` are the L
    words, at most six. A cell shows the word and the feature that its number comes from, in the colour of
    that word. Each row of a panel belongs to the word next to it; a cell from another word is framed. Raises
    ValueError if a number is missing or duplicated, or if the number of words isn't L or is above six.
    """
    lines, details = [], []
    for name, numbers in cuts.items():
        heads = from_tensor(numbers, f"cuts[{name!r}]", (3,))
        rows = as_words(words, heads.shape[1], "words")
        if not np.array_equal(np.sort(heads, axis=None), np.arange(heads.size)):
            raise ValueError(
                f"cuts[{name!r}]: expected each number from 0 to {heads.size - 1} exactly once, got "
                f"{np.unique(heads).size} different numbers. Split torch.arange(L * D), so that each number "
                "says where it comes from."
            )
        if len(rows) > len(TINTS):
            raise ValueError(
                f"words: expected at most {len(TINTS)} words, one for each colour, got {len(rows)}."
            )
        cells = [_traced(head, rows, len(heads)) for head in heads]
        lines.append(_heads(name, cells, rows, heads.shape[2]))
        moved = sum(cell.framed for head in cells for cell in head)
        count = "1 head" if len(heads) == 1 else f"{len(heads)} heads"
        details.append(f"{name}, {count}: {moved} of {heads.size} in the row of another word")
    subtitle = (
        "Each cell says which word and feature its number is from. Framed: it is in another word's row."
    )
    return captioned(
        alt.vconcat(*lines, spacing=20),
        "Which features of which word does each head get?",
        subtitle,
        f"{'; '.join(details)}.",
    )


def _traced(head: Floats, words: list[str], heads: int) -> list[Cell]:
    width = heads * head.shape[1]
    cells = []
    for (row, _), number in np.ndenumerate(head.astype(int)):
        word, feature = divmod(int(number), width)
        details = f"feature {feature} of word {word}, {words[word]}"
        cells.append(Cell(TINTS[word], f"{words[word]} {feature}", details, framed=word != row))
    return cells


def _heads(name: str, cells: Sequence[Sequence[Cell]], words: list[str], width: int) -> alt.HConcatChart:
    count, gap = len(cells), 22
    size = cell_size(count * width, WIDTH - 110 - gap * (count - 1), 42)
    grid = Grid(words, [str(n) for n in range(width)], size, ("word", "feature", "holds"))
    names = [f"head {number}" if count > 1 else "all features" for number in range(count)]
    heads = grid.side_by_side(dict(zip(names, cells, strict=True)), gap=gap, column_labels=False)
    return heads.properties(title=alt.Title(name, fontSize=13, offset=4))


def heads_overview(weights: Numbers, queries: Sequence[str], keys: Sequence[str]) -> Picture:
    """Draw the attention weights of all layers (rows) and heads (columns) of a model as small heat maps.

    `weights` is (N, H, Q, K), for N layers and at most 16 heads. A tooltip names the layer, head, query and
    key of a cell. Raises ValueError if `weights` doesn't have four axes or has too many heads, if there
    aren't Q `queries` and K `keys`, or if a weight isn't between 0 and 1.
    """
    maps = weights_from_tensor(weights, (4,))
    _, heads, query_count, key_count = maps.shape
    check_count(heads, 16, "weights", "heads")
    rows, columns = as_words(queries, query_count, "queries"), as_words(keys, key_count, "keys")
    gap = 10
    size = max(2.0, min(16.0, ((WIDTH - 100) / heads - gap) / key_count))
    table = pd.DataFrame(
        (
            (layer + 1, head + 1, q, k, rows[q], columns[k], round(float(weight), 4))
            for (layer, head, q, k), weight in np.ndenumerate(maps)
        ),
        columns=["layer", "head", "row", "column", "query", "key", "weight"],
    )
    boxes = alt.Chart(table).mark_rect(stroke="white", strokeWidth=0.5 if size >= 6 else 0, aria=False)
    squares = boxes.encode(
        x=index_x("column", key_count),
        y=index_y("row", query_count),
        fill=WEIGHT_SHADES.fill("weight"),
        tooltip=["layer:O", "head:O", "query:N", "key:N", alt.Tooltip("weight:Q", format=".3f")],
    ).properties(width=key_count * size, height=query_count * size)
    layer_names, head_names = (alt.Header(labelExpr=f"'{name} ' + datum.value") for name in ("layer", "head"))
    chart = squares.facet(
        row=alt.Row("layer:O", header=layer_names),
        column=alt.Column("head:O", header=head_names),
        spacing=gap,
    )
    details = [
        f"layer {layer + 1}, head {head + 1}: {mean:.2f}"
        for (layer, head), mean in np.ndenumerate(maps.max(axis=-1).mean(axis=-1))
    ]
    return captioned(
        chart,
        "All layers and heads at a glance",
        "In each square, a row is a query and a column is a key. Hover to read a weight.",
        f"The mean of the largest weight of each query: {'; '.join(details)}.",
    )
