"""The calculation of attention for a few words, step by step, as a table that grows row by row."""

import math
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.inputs import Floats, Numbers, as_words, from_tensor
from course_lib.charts.marks import WEIGHT_SHADES, captioned, index_x, index_y, short, tips, word_axis
from course_lib.charts.theme import AMOUNTS, EQUAL_FILL, WIDTH, Picture, ink_on

STEPS = ("key", "query · key", "divided by √d", "exponential", "weight", "value", "weight × value")
MAX_KEYS, ROW, LABELS = 8, 34, 170
"""The maximum number of keys, the height of a row in pixels, and the width of the steps' names."""


def attention_steps(
    query: Numbers, key: Numbers, value: Numbers, queries: Sequence[str], keys: Sequence[str]
) -> Picture:
    """Draw the calculation of attention for one query as a table of steps (rows) and keys (columns).

    `query` is (Q, d), `key` (K, d) and `value` (K, v), with at most 8 keys. `queries` and `keys` hold a word
    for each query and key. A list selects the query, and a slider the number of steps that are shown. Raises
    ValueError if the shapes or the numbers of words do not match, a number isn't finite, or there are more
    than 8 keys.
    """
    q, k, v = (
        from_tensor(values, name, (2,), finite=True)
        for values, name in ((query, "query"), (key, "key"), (value, "value"))
    )
    if q.shape[1] != k.shape[1] or len(k) != len(v) or len(k) > MAX_KEYS:
        raise ValueError(
            f"query, key, value: expected (Q, d), (K, d) and (K, v) with K up to {MAX_KEYS}, "
            f"got {q.shape}, {k.shape} and {v.shape}."
        )
    rows, columns = as_words(queries, len(q), "queries"), as_words(keys, len(k), "keys")
    table = pd.DataFrame(
        cell for number, vector in enumerate(q) for cell in _calculation(number, vector, k, v, columns)
    )
    numbered = [f"{number + 1}. {word} {_vector(q[number])}" for number, word in enumerate(rows)]
    chosen = alt.param(
        name="step_query",
        value=0,
        bind=alt.binding_select(options=list(range(len(rows))), labels=numbered, name="Query: "),
    )
    steps = alt.param(
        name="steps_shown",
        value=len(STEPS),
        bind=alt.binding_range(min=1, max=len(STEPS), step=1, name="Steps shown: "),
    )
    cell = min(110, (WIDTH - LABELS) // (len(columns) + 1))
    base = (
        alt.Chart(table)
        .transform_filter("datum.query === step_query && datum.step < steps_shown")
        .encode(
            x=index_x(
                "column", len(columns) + 1, "key", word_axis([*columns, "all keys"], cell, orient="top")
            ),
            y=index_y("step", len(STEPS), axis=word_axis(STEPS, ROW, orient="left")),
            tooltip=tips(("step name:N", "step"), ("column name:N", "key"), ("text:N", "result")),
        )
    )
    boxes = base.mark_rect(stroke="white").encode(color=alt.Color("fill:N", scale=None))
    texts = base.mark_text(fontSize=12, aria=False).encode(
        text="text:N", color=alt.Color("ink:N", scale=None)
    )
    details = [
        f"{row}: {', '.join(f'{word} {text}' for word, text in _column_texts(table, number, 4))}, "
        f"output {_column_texts(table, number, 6)[-1][1]}"
        for number, row in enumerate(rows)
    ]
    chart = alt.LayerChart(layer=[boxes, texts], width=cell * (len(columns) + 1), height=ROW * len(STEPS))
    return captioned(
        chart.add_params(chosen, steps),
        "Attention, one step at a time",
        "Choose a query and the number of steps with the controls below.",
        f"Weights of each query: {'; '.join(details)}.",
    )


def _calculation(
    number: int, query: Floats, keys: Floats, values: Floats, words: Sequence[str]
) -> list[dict[str, object]]:
    """Return the table's cells for query `number`. `words` are the words of the keys."""
    products = keys @ query
    divided = products / math.sqrt(len(query))
    # Shift very high scores so that no exponential overflows. This doesn't change the weights.
    powers = np.exp(divided - max(divided.max() - 700, 0))
    weights = powers / powers.sum()
    parts = weights[:, None] * values
    lines: list[list[str]] = [
        [_vector(key) for key in keys],
        [short(product) for product in products],
        [short(score) for score in divided],
        [*(short(power) for power in powers), f"sum {short(float(powers.sum()))}"],
        [*(f"{weight:.3f}" for weight in weights), "sum 1"],
        [_vector(value) for value in values],
        [*(_vector(part) for part in parts), f"sum {_vector(parts.sum(axis=0))}"],
    ]
    fills = {(4, column): WEIGHT_SHADES.colour(float(weight)) for column, weight in enumerate(weights)}
    fills[6, len(words)] = AMOUNTS[1]
    return [
        {
            "query": number,
            "step": step,
            "column": column,
            "step name": STEPS[step],
            "column name": [*words, "all keys"][column],
            "text": text,
            "fill": (fill := fills.get((step, column), EQUAL_FILL)),
            "ink": ink_on(fill),
        }
        for step, line in enumerate(lines)
        for column, text in enumerate(line)
    ]


def _vector(values: Floats) -> str:
    return f"({', '.join(short(round(float(value), 2)) for value in values)})"


def _column_texts(table: pd.DataFrame, query: int, step: int) -> list[tuple[str, str]]:
    rows = table[(table["query"] == query) & (table["step"] == step)]
    return [(str(name), str(text)) for name, text in zip(rows["column name"], rows["text"], strict=True)]
