"""The charts of attention weights: heat maps, a sentence with clickable words, and a mask's effect."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.inputs import (
    Booleans,
    Floats,
    Numbers,
    as_words,
    check_index,
    from_tensor,
    mask_from_tensor,
    weights_from_tensor,
)
from course_lib.charts.marks import (
    WEIGHT_SHADES,
    Cell,
    Grid,
    Shades,
    beside_rows,
    captioned,
    cell_size,
    clicked,
    exact,
    fixed_x,
    fixed_y,
    hundredths,
    notes_on,
    number_cell,
    short,
    tips,
)
from course_lib.charts.theme import AMOUNTS, CATEGORIES, INK, QUIET_INK, WIDTH, Picture, ink_on


def attention_heatmap(
    weights: Numbers,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    mask: Numbers | None = None,
    panels: Sequence[str] | None = None,
    title: str = "Which words does each word attend to?",
) -> Picture:
    """Draw attention weights as a heat map, with a row for each query and a column for each key.

    `weights` is (Q, K), or (P, Q, K) for P matrices side by side, such as the heads of a layer. `panels`
    holds the names of these matrices; by default, they are numbered from 0. `mask` is boolean, True for "may
    attend", and broadcasts to the weights. A masked cell is crossed out if its weight is zero, and otherwise
    marked as a leak. Raises ValueError if the weights have fewer than two or more than three axes, if
    `queries`, `keys` or `panels` don't match them, or if `mask` isn't boolean or doesn't broadcast to them.
    """
    matrices = from_tensor(weights, "weights", (2, 3))
    allowed = mask_from_tensor(np.array(True) if mask is None else mask, matrices.shape)
    if matrices.ndim == 2:
        if panels is not None:
            raise ValueError(
                f"panels: expected none for a single matrix of shape {matrices.shape}, got {list(panels)}."
            )
        matrices, allowed = matrices[None], allowed[None]
    count, query_count, key_count = matrices.shape
    rows, columns = as_words(queries, query_count, "queries"), as_words(keys, key_count, "keys")
    names = list(map(str, range(count))) if panels is None else as_words(panels, count, "panels")

    # Four panels in one row have room for their numbers only if there are few keys.
    across, gap = 2 if count == 4 and key_count > 4 else min(count, 4), 14
    room = WIDTH - 150 - gap * (across - 1)
    grid = Grid(rows, columns, cell_size(key_count * across, room), ("query", "key", "weight"))
    cells: list[Cell] = []
    grids, details = [], []
    for number, (name, matrix, one_mask) in enumerate(zip(names, matrices, allowed, strict=True)):
        panel = grid.numbers(matrix, WEIGHT_SHADES, one_mask, hundredths)
        cells += panel
        grids.append(
            grid.draw(
                panel,
                title=name if count > 1 else "",
                ramp=WEIGHT_SHADES,
                row_labels=number % across == 0,
                column_labels=number < across,
            )
        )
        heading = f"Panel {name}: " if count > 1 else ""
        details.append(heading + ", ".join(strongest(matrix, rows, columns)))
    return captioned(
        alt.concat(*grids, columns=across, spacing=gap),
        title,
        [_about_rows(matrices), *notes_on(cells)],
        f"Each query's largest weight: {'; '.join(details)}.",
    )


def _about_rows(matrices: Floats) -> str:
    sums = matrices.sum(axis=-1)
    ones, zeros = np.isclose(sums, 1, atol=0.01), (matrices == 0).all(axis=-1)
    if ones.all():
        return "Each row is a query, and its weights sum to 1."
    if (ones | zeros).all():
        return "Each row is a query. Its weights sum to 1, or to 0 if every key is masked."
    return "Each row is a query. Not every row sums to 1."


def strongest(weights: Floats, rows: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Describe the largest weight of each query, such as "sat to cat (0.71)". NaN counts as 0."""
    return [
        f"{row} to {columns[int(np.argmax(line))]} ({exact(round(float(line.max()), 2))})"
        for row, line in zip(rows, np.nan_to_num(weights), strict=True)
    ]


def mask_cells(allowed: Booleans) -> list[Cell]:
    """Return the cells of a mask: a tick on blue where a key is allowed, otherwise a cross on grey."""
    open_cell = Cell(AMOUNTS[1], "✓", "may attend")
    closed = number_cell(0.0, WEIGHT_SHADES, masked=True)
    return [open_cell if may else closed for may in allowed.ravel()]


def mask_effect(scores: Numbers, mask: Numbers, weights: Numbers) -> Picture:
    """Draw the scores, mask and weights of an attention operation side by side, with the weights' row sums.

    `scores` and `weights` are (Q, K). `mask` is boolean, True for "may attend", and broadcasts to (Q, K). In
    the panel of weights, a masked cell is crossed out if its weight is zero, and otherwise marked as a leak.
    Raises ValueError if the shapes do not match or the mask isn't boolean.
    """
    score_matrix = from_tensor(scores, "scores", (2,))
    weight_matrix = from_tensor(weights, "weights", (2,))
    if score_matrix.shape != weight_matrix.shape:
        raise ValueError(
            f"weights: expected the shape of the scores, {score_matrix.shape}, got {weight_matrix.shape}."
        )
    allowed = mask_from_tensor(mask, score_matrix.shape)
    rows, columns = ([str(number) for number in range(count)] for count in score_matrix.shape)
    cell = cell_size(3 * len(columns), WIDTH - 250)
    score_grid, mask_grid, weight_grid = (
        Grid(rows, columns, cell, ("query", "key", name)) for name in ("score", "mask", "weight")
    )
    shades = Shades.spanning(score_matrix)
    score_cells = score_grid.numbers(score_matrix, shades)
    weight_cells = weight_grid.numbers(weight_matrix, WEIGHT_SHADES, allowed, hundredths)
    sums = [_sum_in_words(*row) for row in zip(weight_matrix, allowed, strict=True)]
    panels: list[alt.Chart | alt.LayerChart] = [
        score_grid.draw(score_cells, title="1. scores"),
        mask_grid.draw(mask_cells(allowed), title="2. mask", row_labels=False),
        weight_grid.draw(weight_cells, title="3. weights", row_labels=False),
        beside_rows(sums, cell, title="row sums", width=116),
    ]
    lines = ["Each row is a query. A tick: it may attend to this key. ×: it must not."]
    if not score_grid.has_room:
        lines.append(
            f"Scores: brown is below zero, blue above, up to {short(shades.high)}. Weights: darker is more."
        )
    lines += notes_on(one for one in (*score_cells, *weight_cells) if one.kind != "masked")
    details = [
        f"{row} may attend to {int(keys.sum())} of {len(keys)} keys, its weights sum to {total:.4g}"
        for row, keys, total in zip(rows, allowed, weight_matrix.sum(axis=-1).tolist(), strict=True)
    ]
    return captioned(
        alt.hconcat(*panels, spacing=16),
        "A mask removes keys from the softmax",
        lines,
        f"{'; '.join(details)}.",
    )


def _sum_in_words(weights: Floats, allowed: Booleans) -> str:
    total = float(weights.sum())
    if not allowed.any():
        return "0  (all masked)" if total == 0 else f"! {hundredths(total)}, all masked"
    return hundredths(total) if abs(total - 1) < 0.01 else f"! {hundredths(total)}, not 1"


ACROSS = WIDTH - 60
"""The width of a sentence in pixels; the axis of the bars is to its left."""

BOX, FAN, BARS = 28, 84, 110
"""The heights in pixels of a row of words, of the lines between them, and of the bars."""

CHOSEN = CATEGORIES[1]


def attention_over_sentence(
    weights: Numbers,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    start: int = 0,
) -> Picture:
    """Draw the weights of one query over the keys. A click on a word, or the list below, selects the query.

    `weights` is (Q, K). Lines lead from the selected query to the keys. For a larger weight, the line is
    thicker and the key is darker; a bar below the key shows the weight. `start` is the index of the query
    that is selected initially. Everything is computed in the browser. Raises ValueError if the numbers of
    `queries` and `keys` do not match the weights, a weight isn't between 0 and 1, or `start` isn't the index
    of a query.
    """
    matrix = weights_from_tensor(weights, (2,))
    rows, columns = as_words(queries, matrix.shape[0], "queries"), as_words(keys, matrix.shape[1], "keys")
    check_index(start, len(rows), "start", "a query")
    numbered = [f"{number + 1}. {word}" for number, word in enumerate(rows)]
    query_list = alt.binding_select(options=list(range(len(rows))), labels=numbered, name="Query: ")
    choice = clicked("chosen_query", {"query": start}, query_list)
    looks = _looks(matrix, rows, columns, choice)
    row_names = pd.DataFrame({"name": ["query", "keys"], "y": [0.5 * BOX, 1.5 * BOX + FAN]})
    names = (
        alt.Chart(row_names)
        .mark_text(align="right", color=QUIET_INK)
        .encode(x=alt.value(-6), y=fixed_y("y", 2 * BOX + FAN, 0), text="name:N")
    )
    words = alt.layer(*_lines_to_keys(looks, columns), *_query_boxes(rows, choice), names)
    picture = alt.vconcat(
        words.properties(width=ACROSS, height=2 * BOX + FAN), _bars(looks, len(columns)), spacing=6
    )
    return captioned(
        picture,
        "Which words does this word attend to?",
        "Click a word in the upper row. Thicker lines and darker words: more weight.",
        f"Largest weights: {', '.join(strongest(matrix, rows, columns))}. The list below selects the query.",
    )


def _looks(matrix: Floats, rows: list[str], columns: list[str], choice: alt.Parameter) -> alt.Chart:
    """Return a base chart with a table row for each query and key, filtered to the query in `choice`."""
    table = pd.DataFrame(
        {
            "query": q,
            "query word": row,
            "key word": column,
            "weight": (weight := float(matrix[q, k])),
            "shown": hundredths(weight),
            "details": exact(weight),
            "fill": (fill := WEIGHT_SHADES.colour(weight)),
            "ink": ink_on(fill),
            "from": (q + 0.5) / len(rows),
            "to": (k + 0.5) / len(columns),
            "left": (k + 0.04) / len(columns),
            "right": (k + 0.96) / len(columns),
        }
        for q, row in enumerate(rows)
        for k, column in enumerate(columns)
    )
    fields = ("query word:N", "query"), ("key word:N", "key"), ("details:N", "weight")
    return alt.Chart(table).transform_filter(choice).encode(tooltip=tips(*fields))


def _lines_to_keys(looks: alt.Chart, columns: list[str]) -> list[alt.Chart]:
    """Draw the keys in boxes, and a line from the selected query to each key of weight 0.005 or more."""
    thickness = alt.Scale(domain=[0, 1], range=[0.5, 14])
    lines = looks.transform_filter("datum.weight >= 0.005").mark_rule(
        color=CHOSEN, strokeCap="round", opacity=0.55, aria=False
    )
    box = looks.mark_rect(cornerRadius=4, stroke=QUIET_INK, strokeWidth=0.6, aria=False)
    text = looks.mark_text(fontSize=_font_size(columns), aria=False)
    return [
        lines.encode(
            x=fixed_x("from", 0, 1),
            x2="to:Q",
            y=alt.value(BOX),
            y2=alt.value(BOX + FAN),
            strokeWidth=alt.StrokeWidth("weight:Q", scale=thickness, legend=None),
        ),
        box.encode(
            x=fixed_x("left", 0, 1),
            x2="right:Q",
            y=alt.value(BOX + FAN),
            y2=alt.value(2 * BOX + FAN),
            color=alt.Color("fill:N", scale=None),
        ),
        text.encode(
            x=fixed_x("to", 0, 1),
            y=alt.value(1.5 * BOX + FAN),
            text="key word:N",
            color=alt.Color("ink:N", scale=None),
        ),
    ]


def _query_boxes(rows: list[str], choice: alt.Parameter) -> list[alt.Chart]:
    """Draw the queries as clickable boxes. The selected query is filled and bold."""
    index = np.arange(len(rows))
    frame = pd.DataFrame({"query": index, "query word": rows, "from": (index + 0.5) / len(rows)})
    frame["left"], frame["right"] = (index + 0.04) / len(rows), (index + 0.96) / len(rows)
    base = alt.Chart(frame).encode(tooltip=tips(("query word:N", "click to choose")))
    box = base.mark_rect(cornerRadius=4, strokeWidth=1, cursor="pointer").encode(
        x=fixed_x("left", 0, 1),
        x2="right:Q",
        y=alt.value(0),
        y2=alt.value(BOX),
        color=alt.condition(choice, alt.value(CHOSEN), alt.value("white")),
        stroke=alt.condition(choice, alt.value(CHOSEN), alt.value(QUIET_INK)),
    )
    texts = [
        base.transform_filter(shown)
        .mark_text(
            fontSize=_font_size(rows),
            fontWeight="bold" if shown is choice else "normal",
            color=ink_on(CHOSEN) if shown is choice else INK,
            cursor="pointer",
            aria=False,
        )
        .encode(x=fixed_x("from", 0, 1), y=alt.value(0.5 * BOX), text="query word:N")
        for shown in (~choice, choice)
    ]
    return [box.add_params(choice), *texts]


def _bars(looks: alt.Chart, count: int) -> alt.LayerChart:
    """Draw a bar for each key, below its word, with the weight written above the bar."""
    axis = alt.Axis(title="weight", values=[0, 0.5, 1], format="~g")
    base = looks.encode(x=fixed_x("to", 0, 1), y=fixed_y("weight", 0, 1.12, axis))
    bars = base.mark_bar(color=CHOSEN, width=min(40, 0.6 * ACROSS / count))
    numbers = base.mark_text(dy=-8, fontSize=min(12, int(0.38 * ACROSS / count)), aria=False)
    return alt.LayerChart(layer=[bars, numbers.encode(text="shown:N")], width=ACROSS, height=BARS)


def _font_size(words: list[str]) -> int:
    """Return the largest font size, from 7 to 13, at which every word fits its box; 7 if none does."""
    room = 0.9 * ACROSS / len(words)
    return max(7, min(13, int(room / (0.58 * max(map(len, words), default=1)))))
