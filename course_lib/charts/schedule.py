"""The chart of lesson 07: learning-rate schedules."""

import altair as alt
import pandas as pd

from course_lib.charts.inputs import check_column, check_count, check_table
from course_lib.charts.lines import curves_with_dots
from course_lib.charts.marks import tips
from course_lib.charts.theme import Picture


def schedule_curves(
    table: pd.DataFrame, *, title: str = "How does the learning rate rise and fall?"
) -> Picture:
    """Draw the learning rate against the step, with a line for each schedule and a dot at its peak.

    `table` has one row for each `step` (1 or more) of each `schedule` (at most six), with its `rate`. Raises
    ValueError for missing columns, an empty table, more than six schedules, a step below 1, or rates that are
    negative or not finite.
    """
    check_table(table, ("schedule", "step", "rate"))
    check_count(table["schedule"].nunique(), 6, "table", "schedules")
    check_column(table, "step", "steps of 1 or more", 1)
    check_column(table, "rate", "finite, non-negative rates", 0)
    table = table.reset_index(drop=True)
    peaks = table.loc[table.groupby("schedule", sort=False)["rate"].idxmax()]
    peaks = peaks.assign(shown=[f"{rate:.2g}" for rate in peaks["rate"]])
    across = alt.Axis(title="step (update of the weights)", format=",d", tickCount=6)
    upward = alt.Axis(title="learning rate", format="~g", tickCount=6)
    highest = alt.Scale(domain=[0, 1.12 * (float(table["rate"].max()) or 1.0)], nice=False)
    details = [
        f"{name}: {rate:.2g} at step {step:,}"
        for name, rate, step in peaks[["schedule", "rate", "step"]].itertuples(index=False)
    ]
    return curves_with_dots(
        table,
        peaks,
        x=alt.X("step:Q", axis=across),
        y=alt.Y("rate:Q", scale=highest, axis=upward),
        line="schedule",
        legend=alt.Legend(
            title=None, orient="bottom", columns=2, symbolType="stroke", symbolSize=900, labelLimit=320
        ),
        tooltip=tips(
            ("schedule:N", "schedule"), ("step:Q", "step", ","), ("rate:Q", "learning rate", ".4~g")
        ),
        number=alt.MarkDef(type="text", dx=7, dy=-9, align="left", aria=False),
    ).properties(
        width=600,
        height=300,
        title=alt.Title(title, subtitle="A dot marks the peak of each schedule, with its learning rate."),
        description=f"{title} Peaks: {'; '.join(details)}.",
    )
