"""Learning-rate schedules: how large each update is, and where the peak lies."""

import math

import altair as alt
import pandas as pd

from course_lib.charts.colours import CATEGORIES, INK
from course_lib.charts.theme import Picture

COLUMNS = ("schedule", "step", "rate")
DASHES = ([1, 0], [8, 4], [2, 3], [10, 3, 2, 3], [14, 4], [4, 2])
"""A line is known by its dashes too, not by its colour alone."""


def schedule_curves(
    table: pd.DataFrame, *, title: str = "How does the learning rate go up and down?"
) -> Picture:
    """The learning rate against the step, a line for each schedule, with a dot and a number at each peak.

    `table` has one row for each `step` (1 or more) of each `schedule`, with its `rate`. Schedules keep the
    order in which they first stand there; six at most. Raises ValueError for missing columns, an empty
    table, more schedules, a step below 1, or rates that aren't finite and 0 or more.
    """
    _check(table)
    names = list(dict.fromkeys(table["schedule"]))
    peaks = table.loc[table.groupby("schedule", sort=False)["rate"].idxmax()]
    peaks = peaks.assign(shown=[f"{rate:.2g}" for rate in peaks["rate"]])
    colours = alt.Scale(domain=names, range=list(CATEGORIES[: len(names)]))
    dashes = alt.Scale(domain=names, range=list(DASHES[: len(names)]))
    legend = alt.Legend(
        title=None, orient="bottom", columns=2, symbolType="stroke", symbolSize=900, labelLimit=320
    )
    highest = float(table["rate"].max()) or 1.0
    y = alt.Y(
        "rate:Q",
        title="learning rate",
        scale=alt.Scale(domain=[0, 1.12 * highest], nice=False),
        axis=alt.Axis(format="~g", tickCount=6),
    )
    base = alt.Chart().encode(
        x=alt.X("step:Q", title="step (update of the weights)", axis=alt.Axis(format=",d", tickCount=8)),
        y=y,
        color=alt.Color("schedule:N", scale=colours, sort=names, legend=legend),
        tooltip=[
            alt.Tooltip("schedule:N"),
            alt.Tooltip("step:Q", format=","),
            alt.Tooltip("rate:Q", format=".4~g"),
        ],
    )
    lines = base.mark_line(strokeWidth=2.5).encode(
        strokeDash=alt.StrokeDash("schedule:N", scale=dashes, sort=names, legend=legend)
    )
    dots = base.mark_point(filled=True, size=70, opacity=1)
    numbers = base.mark_text(dx=7, dy=-9, align="left", fontSize=12, aria=False).encode(
        text="shown:N", color=alt.value(INK)
    )
    told = [
        f"{name}: {rate:.2g} at step {step:,}"
        for name, rate, step in zip(peaks["schedule"], peaks["rate"], peaks["step"], strict=True)
    ]
    return alt.LayerChart(
        layer=[lines.properties(data=table), dots.properties(data=peaks), numbers.properties(data=peaks)],
        width=600,
        height=300,
        title=alt.Title(title, subtitle="A dot marks the peak of each schedule, a number its rate there."),
        description=f"{title} Peaks: {'; '.join(told)}.",
    )


def _check(table: pd.DataFrame) -> None:
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise ValueError(f"table: expected the columns {COLUMNS}, missing {missing}.")
    if table.empty:
        raise ValueError("table: expected at least one step, got an empty table.")
    if (count := table["schedule"].nunique()) > len(DASHES):
        raise ValueError(f"table: expected {len(DASHES)} schedules at most, got {count}. Leave some out.")
    if (table["step"] < 1).any():
        raise ValueError(f"table: expected steps of 1 or more, got {table['step'].min()}.")
    wrong = table[[not (math.isfinite(rate) and rate >= 0) for rate in table["rate"]]]
    if len(wrong):
        raise ValueError(
            f"table: expected finite rates of 0 or more, got {wrong['rate'].iloc[0]} at step "
            f"{wrong['step'].iloc[0]} of {wrong['schedule'].iloc[0]}."
        )
