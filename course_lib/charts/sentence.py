"""Attention over one sentence, live: the student picks a word and sees where it looks."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Floats, Numbers, as_words, from_tensor
from course_lib.charts.cells import WEIGHT_SHADES, exact, hundredths
from course_lib.charts.colours import CATEGORIES, INK, QUIET_INK, ink_on
from course_lib.charts.theme import WIDTH, Picture

ACROSS = WIDTH - 60
"""Pixels that the words take; the bars' axis stands left of them."""

BOX, FAN, BARS = 28, 84, 110
CHOSEN = CATEGORIES[1]


def attention_over_sentence(
    weights: Numbers,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    start: int = 0,
    title: str = "Where does this word look?",
) -> Picture:
    """Pick a query, by a click on the word or in the list below, and see its weights over the keys.

    `weights` is (Q, K). Lines run from the chosen query to the keys, thicker for more weight; each key's
    ground darkens with it, and a bar below says how much. `start` is the query that is chosen first. All of
    it happens in the browser. Raises ValueError when shapes do not fit, a weight isn't between 0 and 1, or
    `start` is no query.
    """
    matrix = from_tensor(weights, "weights", (2,))
    rows, columns = as_words(queries, matrix.shape[0], "queries"), as_words(keys, matrix.shape[1], "keys")
    if not ((matrix >= 0) & (matrix <= 1.001)).all():
        raise ValueError(
            f"weights: expected numbers from 0 to 1, got {matrix.min():.4g} to {matrix.max():.4g}. "
            "Give the weights after the softmax."
        )
    if not 0 <= start < len(rows):
        raise ValueError(f"start: expected a query from 0 to {len(rows) - 1}, got {start}.")
    choice = alt.selection_point(
        name="chosen_query",
        fields=["query"],
        value=[{"query": start}],
        bind=alt.binding_select(
            options=list(range(len(rows))),
            labels=[f"{number + 1}. {word}" for number, word in enumerate(rows)],
            name="The query: ",
        ),
        on="click",
        clear=False,
        toggle=False,
        empty=False,
    )
    looks = alt.Chart(_looks(matrix, rows, columns)).transform_filter(choice)
    picture = alt.vconcat(
        alt.layer(
            _lines(looks), *_key_boxes(looks, columns), *_query_boxes(rows, choice), _row_names()
        ).properties(width=ACROSS, height=2 * BOX + FAN),
        _bars(looks, len(columns)),
        spacing=6,
    )
    strongest = [f"{row} to {columns[int(np.argmax(line))]}" for row, line in zip(rows, matrix, strict=True)]
    return picture.properties(
        title=alt.Title(
            title, subtitle="Click a word of the upper row. Thicker line, darker word: more weight."
        ),
        description=f"{title} Largest weights: {', '.join(strongest)}. The list below chooses the query.",
    )


def _looks(matrix: Floats, rows: list[str], columns: list[str]) -> pd.DataFrame:
    """One table row for each pair of a query and a key."""
    frame = []
    for q, row in enumerate(rows):
        for k, column in enumerate(columns):
            weight = float(matrix[q, k])
            fill = WEIGHT_SHADES.colour(weight)
            frame.append(
                {
                    "query": q,
                    "query word": row,
                    "key word": column,
                    "weight": weight,
                    "shown": hundredths(weight),
                    "told": exact(weight),
                    "fill": fill,
                    "ink": ink_on(fill),
                    "from": (q + 0.5) / len(rows),
                    "to": (k + 0.5) / len(columns),
                    "left": (k + 0.04) / len(columns),
                    "right": (k + 0.96) / len(columns),
                }
            )
    return pd.DataFrame(frame)


def _place(field: str) -> alt.X:
    """A place along the sentence, from 0 to 1."""
    return alt.X(f"{field}:Q", axis=None, scale=alt.Scale(domain=[0, 1], nice=False))


TOOLTIP = [
    alt.Tooltip("query word:N", title="query"),
    alt.Tooltip("key word:N", title="key"),
    alt.Tooltip("told:N", title="weight"),
]


def _lines(looks: alt.Chart) -> alt.Chart:
    """A line from the chosen query to each key that it looks at."""
    return (
        looks.transform_filter("datum.weight >= 0.005")
        .mark_rule(color=CHOSEN, strokeCap="round", opacity=0.55, aria=False)
        .encode(
            x=_place("from"),
            x2="to:Q",
            y=alt.value(BOX),
            y2=alt.value(BOX + FAN),
            strokeWidth=alt.StrokeWidth(
                "weight:Q", scale=alt.Scale(domain=[0, 1], range=[0.5, 14]), legend=None
            ),
            tooltip=TOOLTIP,
        )
    )


def _key_boxes(looks: alt.Chart, columns: list[str]) -> list[alt.Chart]:
    """The keys, whose ground darkens with their weight."""
    box = looks.mark_rect(cornerRadius=4, stroke=QUIET_INK, strokeWidth=0.6, aria=False).encode(
        x=_place("left"),
        x2="right:Q",
        y=alt.value(BOX + FAN),
        y2=alt.value(2 * BOX + FAN),
        color=alt.Color("fill:N", scale=None),
        tooltip=TOOLTIP,
    )
    text = looks.mark_text(fontSize=_font_size(columns), aria=False).encode(
        x=_place("to"), y=alt.value(1.5 * BOX + FAN), text="key word:N", color=alt.Color("ink:N", scale=None)
    )
    return [box, text]


def _query_boxes(rows: list[str], choice: alt.Parameter) -> list[alt.Chart]:
    """The queries, to click on; the chosen one is filled and bold."""
    count = len(rows)
    frame = pd.DataFrame(
        {
            "query": range(count),
            "query word": rows,
            "from": [(number + 0.5) / count for number in range(count)],
            "left": [(number + 0.04) / count for number in range(count)],
            "right": [(number + 0.96) / count for number in range(count)],
        }
    )
    base = alt.Chart(frame).encode(tooltip=[alt.Tooltip("query word:N", title="click to choose")])
    box = (
        base.mark_rect(cornerRadius=4, strokeWidth=1, cursor="pointer")
        .encode(
            x=_place("left"),
            x2="right:Q",
            y=alt.value(0),
            y2=alt.value(BOX),
            color=alt.condition(choice, alt.value(CHOSEN), alt.value("white")),
            stroke=alt.condition(choice, alt.value(CHOSEN), alt.value(QUIET_INK)),
        )
        .add_params(choice)
    )
    text = base.mark_text(fontSize=_font_size(rows), cursor="pointer", aria=False).encode(
        x=_place("from"), y=alt.value(0.5 * BOX), text="query word:N", color=alt.value(INK)
    )
    plain = text.transform_filter(~choice)
    chosen = text.mark_text(fontSize=_font_size(rows), fontWeight="bold", cursor="pointer", aria=False)
    return [box, plain, chosen.encode(color=alt.value(ink_on(CHOSEN))).transform_filter(choice)]


def _row_names() -> alt.Chart:
    """What the two rows of words are, left of them."""
    frame = pd.DataFrame({"name": ["query", "keys"], "y": [0.5 * BOX, 1.5 * BOX + FAN]})
    return (
        alt.Chart(frame)
        .mark_text(align="right", color=QUIET_INK)
        .encode(
            x=alt.value(-6),
            y=alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[2 * BOX + FAN, 0])),
            text="name:N",
        )
    )


def _bars(looks: alt.Chart, count: int) -> alt.LayerChart:
    """A bar for each key, under its word, with its weight written above."""
    weight = alt.Y(
        "weight:Q",
        title="weight",
        scale=alt.Scale(domain=[0, 1.12], nice=False),
        axis=alt.Axis(values=[0, 0.5, 1], format="~g"),
    )
    bars = looks.mark_bar(color=CHOSEN, width=min(40, 0.6 * ACROSS / count)).encode(
        x=_place("to"), y=weight, tooltip=TOOLTIP
    )
    numbers = looks.mark_text(dy=-8, fontSize=min(12, int(0.38 * ACROSS / count)), aria=False).encode(
        x=_place("to"), y=weight, text="shown:N"
    )
    return alt.LayerChart(layer=[bars, numbers], width=ACROSS, height=BARS)


def _font_size(words: list[str]) -> int:
    """The largest size, up to 13, at which every word fits its box."""
    room = 0.9 * ACROSS / len(words)
    return max(7, min(13, int(room / (0.58 * max(map(len, words), default=1)))))
