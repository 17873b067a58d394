"""The charts of the class report. Every value shown by colour is also printed as a number."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import pandas as pd

from autograder.reports.class_report.figures import Figures
from course_lib.charts import Picture
from course_lib.charts.marks import Grid, Shades, captioned, scale_of
from course_lib.charts.theme import CATEGORIES, INK, QUIET_INK, ink_on

WIDTH = 560
"""The width of a chart in pixels, without its labels. With its labels, a chart fits on a printed page."""

SHOWN = 20
"""The maximum number of misconceptions in the chart. The table below the chart contains all of them."""

#: An upper bound for the width of a letter in pixels, because browsers and vl-convert use different fonts.
_LETTER = 7.5

_TENTHS = [f"{tenth * 10}–{tenth * 10 + 9} %" for tenth in range(9)] + ["90–100 %"]
#: Lessons are bold headings above their exercises, which show only the part of their label after the "/".
_HEADED = {
    "labelExpr": "slice(datum.value, indexof(datum.value, '/') + 1)",
    "labelFontWeight": {
        "condition": {"test": "indexof(datum.value, '/') < 0", "value": "bold"},
        "value": "normal",
    },
    "labelFontSize": 11,
}
_OUTCOMES = {"full": "all points", "partial": "some", "none": "none", "waiting": "waiting"}
_OUTCOME_FILLS = ("#08306b", "#6baed6", "#fbd9c4", "#ffffff")


def totals_chart(figures: Figures) -> Picture | None:
    """Draw a histogram of the students' shares of the points so far. Return None if there are no totals."""
    shares = figures.totals["share"].dropna().astype(float)
    if shares.empty:
        return None
    counts = _tenths(shares).value_counts().reindex(_TENTHS, fill_value=0)
    data = counts.rename_axis("tenth").reset_index(name="students")
    axis = alt.Axis(labelAngle=0, grid=False, labelFontSize=10, ticks=False)
    base = alt.Chart(data).encode(
        x=alt.X("tenth:N", sort=_TENTHS, title="share of the points so far", axis=axis),
        y=alt.Y("students:Q", title="students", axis=alt.Axis(format="d", tickMinStep=1)),
    )
    bars = base.mark_bar(color=CATEGORIES[0])
    numbers = (
        base.mark_text(dy=-6, color=INK).encode(text="students:Q").transform_filter("datum.students > 0")
    )
    described = f"Median {shares.median():.0%}, from {shares.min():.0%} to {shares.max():.0%}."
    return captioned(
        (bars + numbers).properties(width=WIDTH, height=170),
        "Totals",
        "A lesson that was not handed in counts as zero. Points that a person has yet to award are left out.",
        f"Number of students for each tenth of the points so far. {described}",
    )


def scores_chart(figures: Figures) -> Picture | None:
    """Draw the distribution of the students' shares of each lesson's points.

    Return None if nothing has been graded.
    """
    scored = figures.scores.dropna(subset=["share"])
    if scored.empty:
        return None
    lessons = list(dict.fromkeys(scored["lesson"]))
    tenths = pd.crosstab(scored["lesson"], _tenths(scored["share"]))
    counts = tenths.reindex(index=lessons, columns=_TENTHS, fill_value=0).to_numpy(float)
    grid = Grid(lessons, _TENTHS, 60, ("", "share of the lesson's points", "students"), row_height=30)
    cells = grid.numbers(counts, Shades.spanning(counts), write=lambda count: f"{count:.0f}" if count else "")
    medians = scored.groupby("lesson")["share"].median()
    described = "; ".join(f"{lesson}: {medians[lesson]:.0%}" for lesson in lessons)
    return captioned(
        grid.draw(cells),
        "Students by share of points",
        "Each number is a count of students. Points that a person has yet to award are left out.",
        f"Number of students in each tenth of the points, by lesson. Medians: {described}.",
    )


def exercises_chart(figures: Figures) -> Picture | None:
    """Draw how many students earned all, some or none of each exercise's points, or are waiting for them.

    Return None if nothing is graded.
    """
    table = figures.points_by_exercise
    if table.empty:
        return None
    rows = table.assign(label=table["lesson"] + "/" + table["exercise"])
    # Each lesson gets a row with its name but no bar, followed by a row for each of its exercises.
    labels = [line for name, part in rows.groupby("lesson", sort=False) for line in (name, *part["label"])]
    data = rows.melt(
        id_vars=["label", "students"], value_vars=list(_OUTCOMES), var_name="outcome", value_name="count"
    )
    data["share"] = data["count"] / data["students"]
    data = data[data["count"] > 0].replace({"outcome": _OUTCOMES}).reset_index(names="order")
    outcomes = list(_OUTCOMES.values())
    shown = [label.rpartition("/")[2] for label in labels]
    share = alt.X(
        "share:Q",
        stack="zero",
        title="share of the students who handed the lesson in",
        axis=alt.Axis(format="%", grid=False),
        scale=alt.Scale(domain=[0, 1]),
    )
    base = alt.Chart(data).encode(x=share, y=rows_of("label", labels, shown, **_HEADED), order="order:Q")
    bars = base.mark_bar(stroke=QUIET_INK, strokeWidth=0.7, height={"band": 0.82}).encode(
        color=alt.Color(
            "outcome:N",
            scale=scale_of(outcomes, _OUTCOME_FILLS),
            legend=alt.Legend(title="points", orient="top", symbolStrokeColor=QUIET_INK, symbolType="square"),
        ),
    )
    numbers = base.mark_text(fontSize=10).encode(
        x=alt.X("share:Q", stack="zero", bandPosition=0.5),
        text="count:Q",
        color=alt.Color("outcome:N", scale=scale_of(outcomes, [*map(ink_on, _OUTCOME_FILLS)]), legend=None),
    )
    hardest = table.dropna(subset=["mean_share"]).nsmallest(3, "mean_share")
    described = "; ".join(
        f"{row.exercise}: {row.mean_share:.0%} of the points" for row in hardest.itertuples()
    )
    chart = (bars + numbers).resolve_scale(color="independent")
    return captioned(
        chart.properties(width=WIDTH, height=18 * len(labels)),
        "Points earned in each exercise",
        "From left to right: all points, some, none, needs manual grading. Numbers are counts of students.",
        f"How many students got all, some or none of each exercise's points. Fewest on average: {described}.",
    )


def misconceptions_chart(figures: Figures) -> Picture | None:
    """Draw how many students made each of the most frequent mistakes.

    Return None if no mistake was recognised.
    """
    table = figures.misconceptions.head(SHOWN)
    if table.empty:
        return None
    statements = table["statement"].map(lambda text: text if len(text) <= 64 else text[:63].rstrip() + "…")
    data = pd.DataFrame({"label": table["exercise"] + ": " + statements, "students": table["students"]})
    data = data.drop_duplicates("label")
    top = int(data["students"].max())
    base = alt.Chart(data).encode(
        y=rows_of("label", list(data["label"])),
        x=alt.X(
            "students:Q",
            title="students",
            # Explicit ticks: for small counts, Vega would place ticks at fractions and round their labels.
            axis=alt.Axis(format="d", values=list(range(0, top + 1, math.ceil(top / 5)))),
            scale=alt.Scale(domain=[0, top]),
        ),
    )
    bars = base.mark_bar(color=CATEGORIES[0], height={"band": 0.7})
    numbers = base.mark_text(align="left", dx=4, color=INK).encode(text="students:Q")
    first = data.iloc[0]
    more = len(figures.misconceptions) - len(table)
    note = (
        f"The {len(table)} most frequent; the table below has {more} more."
        if more
        else "All mistakes that were recognised."
    )
    return captioned(
        (bars + numbers).properties(width=300, height=22 * len(data)),
        "Mistakes of the class",
        note,
        f"How many students made each mistake. Most frequent, {first.students} students: {first.label}.",
    )


def times_chart(figures: Figures) -> Picture | None:
    """Draw, for each lesson, the days since each student's previous hand-in.

    Return None if there are no timestamps to compare.
    """
    data = figures.time_per_lesson.dropna(subset=["days_since_lesson_before"]).copy()
    if data.empty:
        return None
    data["days"] = data["days_since_lesson_before"].astype(float)
    lessons = list(dict.fromkeys(data["lesson"]))
    base = alt.Chart(data).encode(y=rows_of("lesson", lessons))
    days = "days since the student's previous hand-in"
    dots = base.mark_point(color=CATEGORIES[0], size=30, opacity=0.7).encode(
        x=alt.X("days:Q", title=days, scale=alt.Scale(zero=True, nice=True))
    )
    middle = base.mark_tick(color=INK, thickness=3, size=20).encode(x="median(days):Q")
    values = base.mark_text(align="center", dy=-15, fontSize=11, color=INK).encode(
        x="median(days):Q", text=alt.Text("median(days):Q", format=".1f")
    )
    medians = data.groupby("lesson")["days"].median()
    described = "; ".join(f"{lesson}: {medians[lesson]:.1f} days" for lesson in lessons)
    return captioned(
        (dots + middle + values).properties(width=WIDTH, height=44 * len(lessons)),
        "Days between hand-ins",
        "Each circle is a student. The bar and its number are the median.",
        f"Days between each student's hand-ins of successive lessons, as circles. Medians: {described}.",
    )


def _tenths(shares: "pd.Series[float]") -> "pd.Series[str]":
    return (shares.astype(float) * 10 + 1e-9).clip(0, 9).astype(int).map(dict(enumerate(_TENTHS)))


CHARTS: dict[str, Callable[[Figures], Picture | None]] = {
    "totals": totals_chart,
    "scores": scores_chart,
    "exercises": exercises_chart,
    "misconceptions": misconceptions_chart,
    "times": times_chart,
}
"""The functions that draw the charts of the report, keyed by the name of the chart."""


def rows_of(field: str, values: list[str], shown: Sequence[str] = (), **axis: Any) -> alt.Y:
    """Return a y axis with a row for each of the field's `values`, and enough room for the longest label.

    The options in `axis` are passed to `alt.Axis`. If one of them, such as `labelExpr`, changes the labels,
    `shown` must contain the new ones.
    """
    room = max(map(len, shown or values)) * _LETTER
    return alt.Y(
        f"{field}:N",
        sort=values,
        scale=alt.Scale(domain=values),
        title=None,
        axis=alt.Axis(ticks=False, domain=False, labelLimit=1000, minExtent=room, **axis),
    )
