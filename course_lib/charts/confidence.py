"""What a loss asks for: how it changes as a model grows surer of the label."""

import math

import altair as alt
import pandas as pd

from course_lib.charts.colours import CATEGORIES, INK
from course_lib.charts.theme import Picture

COLUMNS = ("smoothing", "confidence", "loss")
DASHES = ([1, 0], [8, 4], [2, 3], [10, 3, 2, 3], [14, 4])
"""A line is known by its dashes too, not by its colour alone."""

TICKS = (0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)


def loss_by_confidence(
    table: pd.DataFrame, *, title: str = "How sure of the label should a model be?"
) -> Picture:
    """The loss against the probability that the model gives the label, a line for each smoothing.

    `table` has one row for each `smoothing` and `confidence`, with the `loss`. Sure and surer lie apart: the
    axis is even in the logarithm of the odds, p / (1 - p). A dot stands where a line is lowest, unless that
    is its right end. Five lines at most. Raises ValueError for missing columns, an empty table, more lines,
    confidences that aren't between 0 and 1, or losses that aren't finite.
    """
    _check(table)
    frame = table.assign(
        odds=[_log_odds(confidence) for confidence in table["confidence"]],
        line=[f"smoothing {smoothing:g}" for smoothing in table["smoothing"]],
    )
    names = list(dict.fromkeys(frame["line"]))
    lowest = frame.loc[frame.groupby("line", sort=False)["loss"].idxmin()]
    dots = lowest[lowest["odds"] < frame["odds"].max()]
    dots = dots.assign(shown=[_percentage(confidence) for confidence in dots["confidence"]])
    colours = alt.Scale(domain=names, range=list(CATEGORIES[: len(names)]))
    dashes = alt.Scale(domain=names, range=list(DASHES[: len(names)]))
    legend = alt.Legend(title=None, orient="right", symbolType="stroke", symbolSize=900)
    base = alt.Chart().encode(
        x=alt.X(
            "odds:Q",
            title="probability that the model gives the label",
            scale=alt.Scale(domain=[frame["odds"].min(), frame["odds"].max()], nice=False),
            axis=_percentages(frame),
        ),
        y=alt.Y("loss:Q", scale=alt.Scale(domainMin=0), axis=alt.Axis(tickCount=6)),
        color=alt.Color("line:N", scale=colours, sort=names, legend=legend),
        tooltip=[
            alt.Tooltip("smoothing:Q"),
            alt.Tooltip("confidence:Q", format=".4~%"),
            alt.Tooltip("loss:Q", format=".3~f"),
        ],
    )
    lines = base.mark_line(strokeWidth=2.5).encode(
        strokeDash=alt.StrokeDash("line:N", scale=dashes, sort=names, legend=legend)
    )
    points = base.mark_point(filled=True, size=80, opacity=1)
    numbers = base.mark_text(dy=16, aria=False).encode(text="shown:N", color=alt.value(INK))
    told = [
        f"{line} at {confidence:.4%}, where it is {loss:.3g}"
        for line, confidence, loss in lowest[["line", "confidence", "loss"]].itertuples(index=False)
    ]
    return alt.LayerChart(
        layer=[lines.properties(data=frame), points.properties(data=dots), numbers.properties(data=dots)],
        width=500,
        height=280,
        title=alt.Title(title, subtitle="A dot marks where a line is lowest."),
        description=f"{title} Lowest: {'; '.join(told)}.",
    )


def _log_odds(confidence: float) -> float:
    return math.log(confidence / (1 - confidence))


def _percentage(confidence: float) -> str:
    return f"{confidence:.0%}" if confidence < 0.985 else f"{confidence:.2%}"


def _percentages(frame: pd.DataFrame) -> alt.Axis:
    """Ticks at round percentages, as many nines as there is room for."""
    reach = [tick for tick in TICKS if frame["confidence"].min() <= tick <= frame["confidence"].max()]
    return alt.Axis(
        values=[_log_odds(tick) for tick in reach],
        labelExpr="format(1 / (1 + exp(-datum.value)), '.3~%')",
        labelOverlap=False,
    )


def _check(table: pd.DataFrame) -> None:
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise ValueError(f"table: expected the columns {COLUMNS}, missing {missing}.")
    if table.empty:
        raise ValueError("table: expected at least one row, got an empty table.")
    if (count := table["smoothing"].nunique()) > len(DASHES):
        raise ValueError(f"table: expected {len(DASHES)} smoothings at most, got {count}. Leave some out.")
    wrong = table[~table["confidence"].between(0, 1, inclusive="neither")]
    if len(wrong):
        raise ValueError(
            f"table: expected each confidence between 0 and 1, got {wrong['confidence'].iloc[0]}."
        )
    wrong = table[[not math.isfinite(loss) for loss in table["loss"]]]
    if len(wrong):
        raise ValueError(
            f"table: expected finite losses, got {wrong['loss'].iloc[0]} at a confidence of "
            f"{wrong['confidence'].iloc[0]}."
        )
