"""The chart of lesson 12: a timeline of computation and communication."""

import altair as alt
import pandas as pd

from course_lib.charts.marks import captioned, fixed_x, scale_of, tips
from course_lib.charts.theme import CATEGORIES, Picture, ink_on


def communication_timeline(table: pd.DataFrame) -> Picture:
    """Draw when a rank computes and when it communicates, with up to three rows for each plan.

    `table` has one row for each piece of work: its `plan` (at most four), its `row` (at most three different
    names, such as backward and network), its `name`, and its `start` and `end` in milliseconds.
    """
    plans, rows = list(table["plan"].unique()), list(table["row"].unique())
    table = table.reset_index(drop=True)
    last = float(table["end"].max()) or 1.0
    table["width"] = table["end"] - table["start"]
    table["middle"] = (table["start"] + table["end"]) / 2
    # Show only names that fit, assuming seven pixels per letter and a chart width of 520 pixels.
    table["shown"] = [
        name if 7 * len(str(name)) < 520 * width / last else ""
        for name, width in table[["name", "width"]].itertuples(index=False)
    ]
    table["ink"] = table["row"].map(dict(zip(rows, map(ink_on, CATEGORIES), strict=False)))
    axis = alt.Axis(title="time (ms)", tickCount=8, format=".1~f")
    base = alt.Chart(table).encode(
        y=alt.Y("row:N", sort=rows, title=None, axis=alt.Axis(domain=False, ticks=False, labelFontSize=12)),
        tooltip=tips(
            ("plan:N", "plan"),
            ("name:N", "work"),
            ("start:Q", "from (ms)", ".1f"),
            ("end:Q", "to (ms)", ".1f"),
        ),
    )
    # Draw no edges around narrow bars, where they would look like gaps.
    edge = alt.condition(f"datum.width > {last / 100}", alt.value(0.4), alt.value(0))
    bars = base.mark_bar(stroke="white", height=20).encode(
        strokeWidth=edge,
        x=fixed_x("start", 0, last, axis),
        x2="end:Q",
        color=alt.Color("row:N", scale=scale_of(rows), legend=None),
    )
    names = base.mark_text(fontSize=10, aria=False).encode(
        x=fixed_x("middle", 0, last, axis), text="shown:N", color=alt.Color("ink:N", scale=None)
    )
    ends = table.groupby("plan", sort=False)["end"].max()
    details = "; ".join(f"{plan} {end:.1f} ms" for plan, end in ends.items())
    title = "What happens while the backward pass runs?"
    subtitle = ("Time until all gradients are summed:", f"{details}.")
    chart = alt.layer(bars, names).properties(width=520, height=26 * len(rows))
    header = alt.Header(
        orient="top", labelAnchor="start", labelFontSize=13, labelFontWeight="bold", labelPadding=0
    )
    faceted: alt.FacetChart = chart.facet(row=alt.Row("plan:N", sort=plans, header=header), spacing=6)
    return captioned(faceted, title, subtitle, " ".join(subtitle))
