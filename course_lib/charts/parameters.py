"""Where a model keeps its parameters: bars by part, one panel a model."""

import altair as alt
import pandas as pd

from course_lib.charts.colours import CATEGORIES, INK
from course_lib.charts.theme import WIDTH, Picture

COLUMNS = ("model", "part", "parameters")
NAMES, NUMBERS, ROW = 170, 150, 26
"""Pixels: what the parts' names take, what is free for the numbers behind the bars, the height of a bar."""


def parameters_by_part(
    table: pd.DataFrame, *, title: str = "Where the parameters are: millions, and share of the model"
) -> Picture:
    """Bars of the parameters in each part, the largest first, one panel for each model, all on one scale.

    `table` has one row a model and part, with the columns `model`, `part` and `parameters`. Raises ValueError
    for missing columns, an empty table, or numbers below 0.
    """
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise ValueError(f"table: expected the columns {COLUMNS}, missing {missing}.")
    if table.empty or (table["parameters"] < 0).any() or not table["parameters"].sum():
        raise ValueError("table: expected parameters of at least one part, 0 or more each, got none or less.")
    models = list(dict.fromkeys(table["model"]))
    parts = list(table.groupby("part")["parameters"].sum().sort_values(ascending=False).index)
    counted = table.groupby(["model", "part"], sort=False, as_index=False)["parameters"].sum()
    totals = counted.groupby("model", sort=False)["parameters"].sum()
    share = counted["parameters"] / counted["model"].map(totals)
    millions = counted["parameters"] / 1e6
    counted = counted.assign(
        millions=millions,
        share=share,
        written=[
            f"{_short(million)} M, {_per_cent(part)}" for million, part in zip(millions, share, strict=True)
        ],
    )
    largest = float(counted["millions"].max())
    panels = [
        _panel(
            counted[counted["model"] == model], f"{model}: {_short(totals[model] / 1e6)} M", parts, largest
        )
        for model in models
    ]
    return alt.vconcat(*panels, spacing=14).properties(
        title=alt.Title(title, subtitle="Shared matrices count once."),
        description=f"{title}. {' '.join(_told(counted, model, totals[model]) for model in models)}",
    )


def _panel(rows: pd.DataFrame, name: str, parts: list[str], largest: float) -> alt.LayerChart:
    base = alt.Chart(rows).encode(
        x=alt.X(
            "millions:Q",
            scale=alt.Scale(domain=[0, largest], nice=False),
            axis=None,
        ),
        y=alt.Y(
            "part:N",
            sort=parts,
            scale=alt.Scale(domain=parts),
            title=None,
            axis=alt.Axis(
                domain=False, ticks=False, labelPadding=8, labelLimit=NAMES, minExtent=NAMES, maxExtent=NAMES
            ),
        ),
        tooltip=[
            alt.Tooltip("model:N"),
            alt.Tooltip("part:N"),
            alt.Tooltip("parameters:Q", format=",d"),
            alt.Tooltip("share:Q", title="share of the model", format=".1%"),
        ],
    )
    bars = base.mark_bar(color=CATEGORIES[0], height=ROW - 8)
    numbers = base.mark_text(align="left", dx=6, color=INK, aria=False).encode(text="written:N")
    return alt.LayerChart(
        layer=[bars, numbers],
        width=WIDTH - NAMES - NUMBERS,
        height=ROW * len(parts),
        title=alt.Title(name, fontSize=13, anchor="start", offset=4),
    )


def _short(millions: float) -> str:
    return f"{millions:.1f}" if millions >= 10 else f"{millions:.2f}"


def _per_cent(share: float) -> str:
    return "under 1%" if 0 < share < 0.005 else f"{share:.0%}"


def _told(counted: pd.DataFrame, model: str, total: float) -> str:
    rows = counted[counted["model"] == model]
    parts = ", ".join(
        f"{part} {written}" for part, written in zip(rows["part"], rows["written"], strict=True)
    )
    return f"{model}, {_short(total / 1e6)} million: {parts}."
