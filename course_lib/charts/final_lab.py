"""The charts of the final lab: the metrics of a training run, and the attention of any layer and head."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.attention import strongest
from course_lib.charts.inputs import Floats, Numbers, as_words, weights_from_tensor
from course_lib.charts.marks import (
    ROOM_FOR_TEXT,
    WEIGHT_SHADES,
    captioned,
    cell_size,
    clicked,
    fixed_x,
    fixed_y,
    index_x,
    index_y,
    note,
    panel_title,
    tips,
    word_axis,
)
from course_lib.charts.theme import ALARM_INK, CATEGORIES, INK, WIDTH, Picture, ink_on

TRAINING, VALIDATION = "training", "validation"

PANELS = (
    ("loss", "Loss (nats per token)", ".3f", "f", ("loss", "validation_loss")),
    ("learning rate", "Learning rate", ".3~g", "~g", ("lr",)),
    ("tokens per second", "Target tokens per second", ",.0f", "~s", ("tokens_per_second",)),
    ("padding", "Padding (share of all positions)", ".1%", ".0%", ("padded",)),
    ("BLEU", "BLEU on the validation split", ".1f", "f", ("bleu",)),
)
"""The panels of a run: name, title, formats for numbers and the axis, and the keys that are drawn."""


def run_progress(rows: Iterable[Mapping[str, object]], *, title: str = "Progress of the run") -> Picture:
    """Draw loss, learning rate, throughput and padding over the updates of a run, in four panels.

    A fifth panel shows BLEU if it was measured. `rows` are the rows of `metrics.jsonl`, each a mapping with
    `step` and any of `loss`, `validation_loss`, `lr`, `tokens_per_second`, `padded` and `bleu`. Other keys,
    and values that aren't finite numbers, are ignored. Axes begin at zero; panels without a number yet are
    empty. Before the first number, a line of text takes the place of all panels.
    """
    points = []
    for row in rows:
        for panel, *_, keys in PANELS:
            for key in keys:
                value = row.get(key)
                if isinstance(value, int | float) and math.isfinite(value):
                    line = VALIDATION if key in ("validation_loss", "bleu") else TRAINING
                    points.append((panel, line, row["step"], value))
    table = pd.DataFrame(points, columns=["panel", "line", "step", "value"])
    if table.empty:
        waiting = "No metrics have been written yet."
        return captioned(note(waiting, 0, 8).properties(width=WIDTH, height=16), title, "", waiting)
    last = int(table["step"].max())
    panels = [
        _metric(table[table["panel"] == name], max(last, 10), head, number, ticks)
        for name, head, number, ticks, _ in PANELS
        if name != "BLEU" or (table["panel"] == name).any()
    ]
    details = [
        f"{panel} ({line}): {group['value'].iloc[0]:.3g} to {group['value'].iloc[-1]:.3g}"
        for (panel, line), group in table.groupby(["panel", "line"], sort=False)
    ]
    count = f"After update {last:,}."
    return captioned(
        alt.concat(*panels, columns=2, spacing=18).resolve_scale(y="independent", color="shared"),
        title,
        f"{count} Blue line: training. Vermilion dots: validation.",
        f"{count} {'; '.join(details)}.",
    )


def _metric(table: pd.DataFrame, last: int, title: str, number: str, ticks: str) -> alt.LayerChart:
    width = 268
    highest = float(table["value"].max()) if len(table) else 0.0
    across = alt.Axis(title="update", format=",d", tickCount=5, tickMinStep=1)
    upward = alt.Axis(title=None, format=ticks, tickCount=5)
    base = alt.Chart(table).encode(
        x=fixed_x("step", 0, last, across), y=fixed_y("value", 0, 1.1 * highest or 1.0, upward)
    )
    training = base.transform_filter(alt.datum.line == TRAINING).mark_line(strokeWidth=2, color=CATEGORIES[0])
    validation = base.transform_filter(alt.datum.line == VALIDATION).mark_point(
        size=46, filled=True, opacity=1, color=CATEGORIES[1]
    )
    touch = base.mark_point(size=60, opacity=0, filled=True, aria=False).encode(
        tooltip=tips(("step:Q", "update", ",d"), ("line:N", "of"), ("value:Q", title, number))
    )
    # Write the newest value above the panel, where no curve can run through it.
    measured = table[table["line"] == TRAINING]
    color = CATEGORIES[0] if len(measured) else CATEGORIES[1]
    newest = alt.Chart((measured if len(measured) else table).tail(1)).mark_text(
        align="right", color=color, fontWeight="bold", aria=False
    )
    shown = newest.encode(x=alt.value(width), y=alt.value(-12), text=alt.Text("value:Q", format=number))
    return alt.LayerChart(
        layer=[training, validation, touch, shown],
        width=width,
        height=150,
        title=panel_title(title, anchor="start"),
    )


def layers_and_heads(
    weights: Numbers,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    title: str = "Which keys does each query attend to?",
) -> Picture:
    """Draw the attention weights of one layer and head, selected in two lists or in an overview of all heads.

    `weights` is (N, H, Q, K), for N layers and H heads. The mean over the heads of a layer can be selected as
    well. Initially, the most focused head is selected: the one with the largest mean, over the queries, of
    the largest weight. The overview is coloured by this mean. Everything is computed in the browser. Raises
    ValueError if `weights` doesn't have four axes, `queries` or `keys` don't match it, or a weight isn't
    between 0 and 1.
    """
    maps = weights_from_tensor(weights, (4,))
    layers, heads, query_count, key_count = maps.shape
    rows, columns = as_words(queries, query_count, "queries"), as_words(keys, key_count, "keys")
    # A subword may be a single space, which would be invisible.
    rows, columns = ([word if word.strip() else "(space)" for word in words] for words in (rows, columns))
    table = _one_row_for_each_head(maps)
    first = table[table["head"] > 0].sort_values("focus").iloc[-1]  # Head 0 is the mean over the heads.
    layer, head = int(first["layer"]), int(first["head"])

    numbers = list(range(heads + 1))
    names = ["mean of all", *map(str, numbers[1:])]
    layer_list = alt.binding_select(options=list(range(1, layers + 1)), name="Layer: ")
    head_list = alt.binding_select(options=numbers, labels=names, name="Head: ")
    # Put the head first, because the browser shows the lists in reverse order.
    choice = clicked("chosen", {"head": head, "layer": layer}, {"head": head_list, "layer": layer_list})
    subtitle = "Each row is a query, and its weights sum to 1. Click a head below, or use the lists."
    panels = _weights(table, rows, columns, choice), _overview(table, ["mean", *names[1:]], choice)
    return captioned(
        alt.vconcat(*panels, spacing=14),
        title,
        subtitle,
        f"Layers: {layers}, with {heads} heads each, in lists below. Largest weights of "
        f"layer {layer}, head {head}: {', '.join(strongest(maps[layer - 1, head - 1], rows, columns))}.",
    )


def _one_row_for_each_head(maps: Floats) -> pd.DataFrame:
    """Return one table row for each layer and head, and for each layer's mean, with its weights as one list.

    One row for each weight would make tens of thousands of rows for a model of the paper's size. The browser
    unpacks the list of the selected head.
    """
    return pd.DataFrame(
        {
            "layer": number + 1,
            "head": head,
            "focus": round(float(table.max(axis=-1).mean()), 4),
            "weight": np.round(table.ravel(), 6).tolist(),
        }
        for number, layer in enumerate(maps)
        for head, table in enumerate([layer.mean(axis=0), *layer])
    )


def _weights(
    table: pd.DataFrame, rows: list[str], columns: list[str], choice: alt.Parameter
) -> alt.LayerChart:
    count = len(columns)
    cell = cell_size(max(count, 4), WIDTH - 190, largest=40)
    base = (
        alt.Chart(table)
        .transform_filter(choice)
        .transform_flatten(["weight"])
        .transform_window(number="row_number()")
        .transform_calculate(
            row=f"floor((datum.number - 1) / {count})", column=f"(datum.number - 1) % {count}"
        )
        .transform_calculate(
            query=f"{json.dumps(rows)}[datum.row]", key=f"{json.dumps(columns)}[datum.column]"
        )
        .encode(
            x=index_x("column", count, "key", word_axis(columns, cell, orient="top")),
            y=index_y("row", len(rows), "query", word_axis(rows, cell, orient="left")),
            tooltip=tips(("query:N", "query"), ("key:N", "key"), ("weight:Q", "weight", ".4f")),
        )
    )
    boxes = base.mark_rect(stroke="white", strokeWidth=1 if cell > 12 else 0.5, aria=False)
    layers = [boxes.encode(fill=WEIGHT_SHADES.fill("weight"))]
    if cell >= ROOM_FOR_TEXT:
        shades = [step / 100 for step in range(100)]
        dark = next(shade for shade in shades if ink_on(WEIGHT_SHADES.colour(shade)) != "#000000")
        ink = alt.condition(f"datum.weight >= {dark}", alt.value("#ffffff"), alt.value("#000000"))
        # Write no number for smaller weights, because it would be 0.00.
        text = base.mark_text(fontSize=min(12, int(cell * 0.36)), aria=False).transform_filter(
            "datum.weight >= 0.005"
        )
        layers.append(text.encode(text=alt.Text("weight:Q", format=".2f"), color=ink))
    return alt.LayerChart(layer=layers, width=cell * count, height=cell * len(rows))


def _overview(table: pd.DataFrame, names: list[str], choice: alt.Parameter) -> alt.LayerChart:
    """Draw a cell for each layer and head. Clicking a cell selects it.

    The darker a cell, the larger the head's largest weight for each query, averaged over the queries.
    """
    layers, cell = int(table["layer"].max()), max(24, min(44, 500 // len(names)))
    gaps = alt.Scale(paddingInner=0.12)
    base = alt.Chart(table.drop(columns="weight")).encode(
        x=alt.X("head:O", title="head", scale=gaps, axis=word_axis(names, cell, orient="top")),
        y=alt.Y("layer:O", title="layer", scale=gaps, axis=alt.Axis(ticks=False, domain=False)),
        tooltip=tips(
            ("layer:O", "layer"), ("head:O", "head"), ("focus:Q", "mean of the largest weights", ".2f")
        ),
    )
    boxes = base.mark_rect(cursor="pointer").encode(
        color=alt.Color("focus:Q", scale=WEIGHT_SHADES.scale(), legend=None),
        stroke=alt.condition(choice, alt.value(ALARM_INK), alt.value("white")),
        strokeWidth=alt.condition(choice, alt.value(3), alt.value(1)),
    )
    numbers = base.mark_text(fontSize=10, cursor="pointer", aria=False).encode(
        text=alt.Text("focus:Q", format=".0%"),
        color=alt.condition("datum.focus > 0.55", alt.value("#ffffff"), alt.value(INK)),
    )
    title = "All heads: the mean over the queries of their largest weight"
    return alt.LayerChart(
        layer=[boxes.add_params(choice), numbers],
        width=cell * len(names),
        height=24 * layers,
        title=panel_title(title, anchor="start"),
    )
