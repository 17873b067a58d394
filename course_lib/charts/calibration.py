"""Calibration: is a model that says 80% right in 80% of the cases?"""

import altair as alt
import pandas as pd

from course_lib.charts.colours import CATEGORIES, QUIET_INK
from course_lib.charts.theme import Picture

COLUMNS = ("model", "confidence", "right")
SHAPES = ("circle", "square", "diamond", "triangle-up")
BINS, FEWEST = 10, 20
"""Confidences are put into bins of a tenth; a bin with fewer guesses is left out."""


def calibration_curves(
    table: pd.DataFrame, *, title: str = "How often is a model right that says it is sure?"
) -> Picture:
    """The share of right guesses against the confidence, a line of points for each model.

    `table` has one row for each guess: the `model` that made it (four at most), its `confidence`, which is
    the probability it gave, and whether it was `right`. The guesses of a model are put into ten bins by
    confidence; a point stands at their mean confidence and their share of right ones, and is the larger the
    more there are. Bins of fewer than 20 guesses are left out. On the dashed line confidence and share agree.
    Raises ValueError for missing columns, more models, confidences outside 0 to 1, answers other than True
    and False, or when no bin has enough guesses.
    """
    _check(table)
    names = list(dict.fromkeys(table["model"]))
    points = _binned(table)
    colours = alt.Scale(domain=names, range=list(CATEGORIES[: len(names)]))
    shapes = alt.Scale(domain=names, range=list(SHAPES[: len(names)]))
    legend = alt.Legend(title=None, orient="right", labelLimit=200)
    unit = alt.Scale(domain=[0, 1])
    per_cent = alt.Axis(format="%", values=[0, 0.2, 0.4, 0.6, 0.8, 1.0])
    x = alt.X("confidence:Q", title="confidence: probability of the guess", scale=unit, axis=per_cent)
    y = alt.Y("share:Q", title="share of right guesses", scale=unit, axis=per_cent)
    base = alt.Chart(points).encode(x=x, y=y)
    colour = alt.Color("model:N", scale=colours, sort=names, legend=legend)
    lines = base.mark_line(strokeWidth=1.5, opacity=0.7).encode(color=colour)
    dots = base.mark_point(filled=True, opacity=1).encode(
        color=colour,
        shape=alt.Shape("model:N", scale=shapes, sort=names, legend=legend),
        size=alt.Size("guesses:Q", scale=alt.Scale(range=[30, 300]), legend=None),
        tooltip=[
            "model:N",
            alt.Tooltip("confidence:Q", title="mean confidence", format=".1%"),
            alt.Tooltip("share:Q", title="share of right guesses", format=".1%"),
            alt.Tooltip("guesses:Q", format=","),
        ],
    )
    ends = pd.DataFrame({"confidence": [0, 1], "share": [0, 1]})
    diagonal = alt.Chart(ends).mark_line(strokeDash=[5, 4], color=QUIET_INK).encode(x=x, y=y)
    lines_on_it = pd.DataFrame(
        {
            "confidence": [0.03, 0.97],
            "share": [0.93, 0.05],
            "says": ["less sure than right", "surer than right"],
            "align": ["left", "right"],
        }
    )
    notes = [
        alt.Chart(lines_on_it[lines_on_it["align"] == side])
        .mark_text(align=side, color=QUIET_INK, fontStyle="italic")
        .encode(x=x, y=y, text="says:N")
        for side in ("left", "right")
    ]
    return alt.LayerChart(
        layer=[diagonal, *notes, lines, dots],
        width=360,
        height=340,
        title=alt.Title(
            title, subtitle="Larger points hold more guesses. On the dashed line, confidence is earned."
        ),
        description=f"{title} {_told(table, names)}",
    )


def _binned(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each model and bin with enough guesses."""
    places = (table["confidence"] * BINS).astype(int).clip(upper=BINS - 1)
    groups = table.assign(bin=places).groupby(["model", "bin"], sort=False)
    binned = groups.agg(confidence=("confidence", "mean"), share=("right", "mean"), guesses=("right", "size"))
    kept = binned[binned["guesses"] >= FEWEST].reset_index()
    if kept.empty:
        raise ValueError(
            f"table: expected {FEWEST} guesses or more in some tenth of the confidences, got none."
        )
    return kept.sort_values(["model", "confidence"])


def _told(table: pd.DataFrame, names: list[str]) -> str:
    told = []
    for name in names:
        guesses = table[table["model"] == name]
        confidence, right = float(guesses["confidence"].mean()), float(guesses["right"].mean())
        told.append(f"{name}: mean confidence {confidence:.0%}, right {right:.0%}")
    return "; ".join(told) + "."


def _check(table: pd.DataFrame) -> None:
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise ValueError(f"table: expected the columns {COLUMNS}, missing {missing}.")
    if (count := table["model"].nunique()) > len(SHAPES):
        raise ValueError(f"table: expected {len(SHAPES)} models at most, got {count}. Leave some out.")
    if table["right"].dtype != bool:
        raise ValueError(f"table: expected True or False in the column right, got {table['right'].dtype}.")
    wrong = table[~table["confidence"].between(0, 1)]
    if len(wrong):
        raise ValueError(f"table: expected confidences from 0 to 1, got {wrong['confidence'].iloc[0]}.")
