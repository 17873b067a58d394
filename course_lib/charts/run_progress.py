"""How a training run goes, from what it writes into its metrics: four curves over its updates."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt
import pandas as pd

from course_lib.charts.colours import CATEGORIES, INK
from course_lib.charts.theme import Picture, panel_title

ACROSS, HEIGHT = 268, 150
"""Pixels of one panel."""

ROOM = 1.15
"""How far an axis reaches beyond the highest number."""

TRAINING, VALIDATION = "training", "validation"

PANELS = (
    ("loss", "Loss, in nats a token", ".3f", ("loss", "validation_loss")),
    ("learning rate", "Learning rate", ".3~g", ("rate",)),
    ("tokens a second", "Target tokens a second", ",.0f", ("tokens_per_second",)),
    ("padded", "Padding, as a share of all places", ".1%", ("padded",)),
)
"""What is drawn: a name, a title, how its numbers are written, and the keys of a row that hold them."""


def run_progress(rows: Iterable[Mapping[str, Any]], *, title: str = "How the run goes") -> Picture:
    """Loss, learning rate, speed and padding over the updates of a run, in four panels.

    `rows` are those of `metrics.jsonl`, each a mapping with `step` and any of `loss`, `validation_loss`,
    `rate`, `tokens_per_second` and `padded`; other keys are left alone, and so are numbers that
    aren't finite. Axes begin at zero; panels without a number yet are empty. Raises ValueError for a row
    without a step.
    """
    table = _table(rows)
    last = int(table["step"].max()) if len(table) else 0
    across = alt.Scale(domain=[0, max(last, 10)], nice=False)
    panels = [_panel(table[table["panel"] == name], across, head, form) for name, head, form, _ in PANELS]
    count = f"After update {last:,}." if len(table) else "Nothing is written yet."
    return (
        alt.concat(*panels, columns=2, spacing=18)
        .resolve_scale(y="independent", color="shared")
        .properties(
            title=alt.Title(title, subtitle=f"{count} Blue: training. Vermilion dots: validation."),
            description=f"{title}. {count} {_told(table)}",
        )
    )


def _table(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One table row a number: its panel, its line, the update and itself."""
    points = []
    for row in rows:
        if "step" not in row:
            raise ValueError(
                f"rows: expected a step in each row, got one with {', '.join(row) or 'nothing'}."
            )
        for panel, _, _, keys in PANELS:
            for key in keys:
                value = row.get(key)
                if isinstance(value, int | float) and math.isfinite(value):
                    line = VALIDATION if key.startswith("validation") else TRAINING
                    points.append({"panel": panel, "line": line, "step": row["step"], "value": value})
    return pd.DataFrame(points, columns=["panel", "line", "step", "value"])


def _panel(table: pd.DataFrame, across: alt.Scale, title: str, written: str) -> alt.LayerChart:
    base = alt.Chart(table if len(table) else pd.DataFrame({"line": [], "step": [], "value": []})).encode(
        x=alt.X(
            "step:Q", title="update", scale=across, axis=alt.Axis(format=",d", tickCount=5, tickMinStep=1)
        ),
        y=alt.Y(
            "value:Q",
            title=None,
            scale=alt.Scale(domain=[0, ROOM * _highest(table)], nice=False),
            axis=alt.Axis(
                format=".0%" if written.endswith("%") else "~s" if "," in written else "~g", tickCount=5
            ),
        ),
    )
    training = base.transform_filter(alt.datum.line == TRAINING)
    touch = base.mark_point(size=60, opacity=0, filled=True, aria=False).encode(
        tooltip=[
            alt.Tooltip("step:Q", title="update", format=",d"),
            alt.Tooltip("line:N", title="of"),
            alt.Tooltip("value:Q", title=title, format=written),
        ]
    )
    validation = base.transform_filter(alt.datum.line == VALIDATION).mark_point(
        size=46, filled=True, opacity=1, color=CATEGORIES[1]
    )
    newest = table[table["line"] == TRAINING].tail(1)
    number = (
        alt.Chart(newest)
        .mark_text(align="right", dy=-10, color=INK, fontWeight="bold", aria=False)
        .encode(x=alt.X("step:Q", scale=across), y="value:Q", text=alt.Text("value:Q", format=written))
    )
    return alt.LayerChart(
        layer=[training.mark_line(strokeWidth=2, color=CATEGORIES[0]), validation, touch, number],
        width=ACROSS,
        height=HEIGHT,
        title=panel_title(title),
    )


def _highest(table: pd.DataFrame) -> float:
    return float(table["value"].max()) if len(table) and table["value"].max() > 0 else 1.0


def _told(table: pd.DataFrame) -> str:
    """The four panels in words."""
    told = []
    for (panel, line), points in table.groupby(["panel", "line"], sort=False):
        first, last = points["value"].iloc[0], points["value"].iloc[-1]
        told.append(f"{panel} ({line}): {first:.3g} to {last:.3g}")
    return f"{'; '.join(told)}." if told else ""
