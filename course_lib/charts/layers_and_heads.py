"""Attention of a whole model, live: the student chooses a layer and a head and sees who looks at whom."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Floats, Numbers, as_words, from_tensor
from course_lib.charts.cells import ROOM_FOR_TEXT, WEIGHT_SHADES, cell_size, word_axis
from course_lib.charts.colours import ink_on
from course_lib.charts.theme import WIDTH, Picture

LAYER, HEAD = "chosen_layer", "chosen_head"
MEAN = 0
"""What the list of heads calls the mean over all heads of a layer."""

LABEL_ROOM = 190
"""Pixels kept free for the words beside the rows and for the legend."""

#: Below it, a weight is not written into its cell, which is nearly white.
WRITTEN_FROM = 0.005


def layers_and_heads(
    weights: Numbers,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    layer: int = 1,
    head: int = MEAN,
    title: str = "Who looks at whom?",
) -> Picture:
    """Attention weights of all layers and heads as cells, with two lists below to choose one of each.

    `weights` is (N, H, Q, K), for N layers and H heads. `layer` and `head`, counted from 1, are shown first;
    a head of 0 is the mean over the layer's heads. The choosing happens in the browser. Raises ValueError
    when shapes or words do not fit, a weight isn't between 0 and 1, or there is no such layer or head.
    """
    maps = from_tensor(weights, "weights", (4,))
    layers, heads, query_count, key_count = maps.shape
    rows = _visible(as_words(queries, query_count, "queries"))
    columns = _visible(as_words(keys, key_count, "keys"))
    if not ((maps >= 0) & (maps <= 1.001)).all():
        raise ValueError(
            f"weights: expected numbers from 0 to 1, got {maps.min():.4g} to {maps.max():.4g}. "
            "Give the weights after the softmax."
        )
    for name, number, least, most in (("layer", layer, 1, layers), ("head", head, MEAN, heads)):
        if not least <= number <= most:
            raise ValueError(f"{name}: expected {least} to {most}, got {number}.")
    choice = [
        _list(LAYER, "Layer: ", list(range(1, layers + 1)), layer, {}),
        _list(HEAD, "Head: ", list(range(heads + 1)), head, {MEAN: "mean of all"}),
    ]
    picture = _cells(_one_row_a_head(maps), rows, columns)
    return picture.add_params(*choice).properties(
        title=alt.Title(
            title, subtitle="Each row is a query, and its weights sum to 1. The lists below choose."
        ),
        description=f"{title} {layers} layers with {heads} heads each, chosen in the lists below. "
        f"{_strongest(maps, rows, columns, layer, head)}",
    )


def _list(name: str, label: str, numbers: list[int], value: int, words: dict[int, str]) -> alt.Parameter:
    labels = [words.get(number, str(number)) for number in numbers]
    return alt.param(
        name=name, value=value, bind=alt.binding_select(options=numbers, labels=labels, name=label)
    )


def _visible(words: list[str]) -> list[str]:
    """Give words that can be seen: a subword may be a lone space."""
    return [word if word.strip() else "␣" for word in words]


def _one_row_a_head(maps: Floats) -> pd.DataFrame:
    """One table row for each layer and head, and for each layer's mean; its weights are one long list.

    A row for each weight would be tens of thousands of them for a model of the paper's size. The browser
    takes the list of the chosen head apart.
    """
    return pd.DataFrame(
        {"layer": number + 1, "head": head, "weight": np.round(table.ravel(), 6).tolist()}
        for number, layer in enumerate(maps)
        for head, table in enumerate([layer.mean(axis=0), *layer])
    )


def _cells(table: pd.DataFrame, rows: list[str], columns: list[str]) -> alt.LayerChart:
    cell = cell_size(max(len(columns), 4), WIDTH - LABEL_ROOM, largest=40)
    base = (
        alt.Chart(table)
        .transform_filter(f"datum.layer === {LAYER} && datum.head === {HEAD}")
        .transform_flatten(["weight"])
        .transform_window(place="row_number()")
        .transform_calculate(
            row=f"floor((datum.place - 1) / {len(columns)})",
            column=f"(datum.place - 1) % {len(columns)}",
        )
        .transform_calculate(query=f"{rows!r}[datum.row]", key=f"{columns!r}[datum.column]")
        .encode(
            x=alt.X(
                "column:O",
                title="key",
                scale=alt.Scale(domain=list(range(len(columns)))),
                axis=word_axis(columns, cell, orient="top"),
            ),
            y=alt.Y(
                "row:O",
                title="query",
                scale=alt.Scale(domain=list(range(len(rows)))),
                axis=word_axis(rows, cell, orient="left"),
            ),
            tooltip=[
                alt.Tooltip("query:N"),
                alt.Tooltip("key:N"),
                alt.Tooltip("weight:Q", format=".4f"),
                alt.Tooltip("layer:Q"),
            ],
        )
    )
    fill = alt.Fill("weight:Q", scale=WEIGHT_SHADES.scale(), legend=WEIGHT_SHADES.legend())
    layers = [
        base.mark_rect(stroke="white", strokeWidth=1 if cell > 12 else 0.5, aria=False).encode(fill=fill)
    ]
    if cell >= ROOM_FOR_TEXT:
        dark = next(
            step / 100 for step in range(100) if ink_on(WEIGHT_SHADES.colour(step / 100)) != "#000000"
        )
        ink = alt.condition(f"datum.weight >= {dark}", alt.value("#ffffff"), alt.value("#000000"))
        text = base.mark_text(fontSize=max(8, int(cell * 0.32)), aria=False).transform_filter(
            f"datum.weight >= {WRITTEN_FROM}"
        )
        layers.append(text.encode(text=alt.Text("weight:Q", format=".2f"), color=ink))
    return alt.LayerChart(layer=layers, width=cell * len(columns), height=cell * len(rows))


def _strongest(maps: Floats, rows: list[str], columns: list[str], layer: int, head: int) -> str:
    """The head that is shown first, in words: where each query looks most."""
    table = maps[layer - 1].mean(axis=0) if head == MEAN else maps[layer - 1, head - 1]
    which = "the mean of its heads" if head == MEAN else f"head {head}"
    looks = [f"{row} to {columns[int(np.argmax(line))]}" for row, line in zip(rows, table, strict=True)]
    return f"Largest weights of layer {layer}, {which}: {', '.join(looks)}."
