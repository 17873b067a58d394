"""How much of the work is padding, for several ways of putting sentences into batches."""

import altair as alt
import pandas as pd

from course_lib.charts.colours import ALARM_INK, CATEGORIES, MASKED_FILL, QUIET_INK
from course_lib.charts.theme import WIDTH, Picture

COLUMNS = ("plan", "real", "padding", "batches")
ROW, ROOM = 58, 150
"""Pixels: the height of a plan, and what is free for its name."""


def padded_share(table: pd.DataFrame, *, title: str = "How much of the work is padding?") -> Picture:
    """A bar for each plan: the places that hold tokens, and behind them those that hold padding.

    `table` has one row a plan, with the columns `plan` (its name), `real` and `padding` (numbers of places)
    and `batches`. Raises ValueError for missing columns, an empty table or numbers below 0.
    """
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing or table.empty:
        raise ValueError(f"table: expected a row a plan, with the columns {COLUMNS}, missing {missing}.")
    if (table[["real", "padding", "batches"]] < 0).any(axis=None) or (table["real"] == 0).any():
        raise ValueError("table: expected real tokens in each plan, and no number below 0.")
    frame = table.assign(
        places=table["real"] + table["padding"],
        share=table["padding"] / (table["real"] + table["padding"]),
    )
    frame["told"] = [
        f"{share:.1%} padding, {count:,} batches"
        for share, count in zip(frame["share"], frame["batches"], strict=True)
    ]
    described = "; ".join(f"{plan}: {told}" for plan, told in zip(frame["plan"], frame["told"], strict=True))
    return _drawn(frame).properties(
        title=alt.Title(title, subtitle="Blue: places that hold a token. Grey: padding."),
        description=f"{title} {described}.",
    )


def _drawn(frame: pd.DataFrame) -> alt.LayerChart:
    plans = list(frame["plan"])
    across = alt.Scale(domain=[0, float(frame["places"].max()) * 1.02], nice=False)
    base = alt.Chart(frame).encode(
        y=alt.Y("plan:N", title=None, sort=plans, axis=alt.Axis(domain=False, ticks=False, labelLimit=ROOM)),
        tooltip=[
            alt.Tooltip("plan:N"),
            alt.Tooltip("real:Q", title="tokens", format=","),
            alt.Tooltip("padding:Q", title="padding", format=","),
            alt.Tooltip("share:Q", title="padded share", format=".1%"),
            alt.Tooltip("batches:Q", format=","),
        ],
    )
    title = "places in all batches of an epoch"
    whole = base.mark_bar(height=22, color=MASKED_FILL, stroke=QUIET_INK, strokeDash=[3, 2]).encode(
        x=alt.X("places:Q", title=title, scale=across, axis=alt.Axis(format="~s"))
    )
    real = base.mark_bar(height=22, color=CATEGORIES[0]).encode(x=alt.X("real:Q", scale=across))
    told = base.mark_text(align="left", dy=-20, fontWeight="bold", color=ALARM_INK).encode(
        x=alt.value(2), text="told:N"
    )
    return alt.LayerChart(layer=[whole, real, told], width=WIDTH - ROOM, height=ROW * len(frame))
