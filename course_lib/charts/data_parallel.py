"""The charts of lesson 12: a timeline of computation and communication, and the memory of each rank."""

import altair as alt
import pandas as pd

from course_lib.charts.marks import captioned, fixed_x, scale_of, tips
from course_lib.charts.theme import CATEGORIES, INK, Picture, ink_on


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
    colours, table["ink"] = _colours(table["row"])
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
        color=alt.Color("row:N", scale=colours, legend=None),
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
        title=None,
        orient="top",
        labelAnchor="start",
        labelAngle=0,
        labelFontSize=13,
        labelFontWeight="bold",
        labelColor=INK,
        labelPadding=0,
    )
    faceted: alt.FacetChart = chart.facet(row=alt.Row("plan:N", sort=plans, header=header), spacing=6)
    return captioned(faceted, title, subtitle, " ".join(subtitle))


def memory_per_rank(table: pd.DataFrame) -> Picture:
    """Draw the gigabytes of memory on one rank as a stacked bar for each plan.

    `table` has one row for each `plan` (at most eight) and `kind` (at most four, such as parameters and
    optimiser state), with `gigabytes`.
    """
    table = table.reset_index(drop=True)
    plans, kinds = list(table["plan"].unique()), list(table["kind"].unique())
    table["end"] = table.groupby("plan", sort=False)["gigabytes"].cumsum()
    table["start"] = table["end"] - table["gigabytes"]
    table["middle"] = (table["start"] + table["end"]) / 2
    maximum = float(table["end"].max()) or 1.0
    table["shown"] = [f"{size:.2g}" if size > maximum / 14 else "" for size in table["gigabytes"]]
    colours, table["ink"] = _colours(table["kind"])
    totals = table.groupby("plan", sort=False)["end"].max().reset_index()
    totals["shown"] = [f"{size:.2g} GB" for size in totals["end"]]
    y = alt.Y("plan:N", sort=plans, title=None, axis=alt.Axis(labelLimit=220, ticks=False, domain=False))
    base = alt.Chart(table).encode(
        y=y, tooltip=tips(("plan:N", "plan"), ("kind:N", "holds"), ("gigabytes:Q", "GB", ".3~g"))
    )

    def x(field: str) -> alt.X:
        axis = alt.Axis(title="gigabytes on each rank", tickCount=6, format="~g")
        return fixed_x(field, 0, 1.15 * maximum, axis)

    legend = alt.Legend(title=None, orient="bottom", labelLimit=260)
    bars = base.mark_bar(height=22).encode(
        x=x("start"),
        x2="end:Q",
        color=alt.Color("kind:N", sort=kinds, scale=colours, legend=legend),
    )
    inside = base.mark_text(fontSize=11, aria=False).encode(
        x=x("middle"), text="shown:N", color=alt.Color("ink:N", scale=None)
    )
    sums = (
        alt.Chart(totals)
        .mark_text(align="left", dx=5, fontWeight="bold", color=INK, aria=False)
        .encode(x=x("end"), y=y, text="shown:N")
    )
    details = "; ".join(f"{plan}: {size}" for plan, size in totals[["plan", "shown"]].itertuples(index=False))
    chart = alt.LayerChart(layer=[bars, inside, sums], width=480, height=34 * len(plans))
    return captioned(chart, "How much memory does training take on each rank?", "", f"{details}.")


def _colours(groups: pd.Series) -> tuple[alt.Scale, list[str]]:
    """Return a scale with a colour for each group, and the ink that is readable on each row's colour."""
    names = list(groups.unique())
    inks = dict(zip(names, map(ink_on, CATEGORIES), strict=False))
    return scale_of(names), [inks[name] for name in groups]
