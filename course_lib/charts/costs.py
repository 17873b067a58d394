"""What a layer costs: which part holds the parameters, and which does the arithmetic."""

from collections.abc import Mapping

import altair as alt
import pandas as pd

from course_lib.charts.colours import CATEGORIES, QUIET_INK, ink_on
from course_lib.charts.theme import Picture, panel_title

COLUMNS = ("length", "part", "multiplications")
COLOURS = (CATEGORIES[1], CATEGORIES[0], CATEGORIES[5], QUIET_INK)
HEIGHT = 270


def layer_costs(
    parameters: Mapping[str, int],
    multiplications: pd.DataFrame,
    *,
    title: str = "Where are a layer's parameters, and where is its arithmetic?",
) -> Picture:
    """Two panels: the parts' shares of the parameters, and of the multiplications against sentence length.

    `parameters` maps each part of a layer to its number of parameters. `multiplications` has one row for
    each part and sentence length, with the columns `length` (words, 1 or more), `part` and `multiplications`
    (a word's). There are four parts at most in both together, and each has one colour. Raises ValueError for
    missing columns, no numbers, numbers below 0, or more parts.
    """
    parts = _parts(parameters, multiplications)
    colours = alt.Scale(domain=parts, range=list(COLOURS[: len(parts)]))
    colour = alt.Color("part:N", scale=colours, sort=parts, legend=alt.Legend(title=None, orient="bottom"))
    total = sum(parameters.values())
    bars = pd.DataFrame(
        {"part": list(parameters), "parameters": list(parameters.values()), "all": "", "order": 0}
    )
    shares = _with_shares(multiplications)
    left = _parameters(_placed(bars.assign(share=bars["parameters"] / total), parts), colour)
    right = _arithmetic(_placed(shares, parts), colour)
    shortest, longest = int(shares["length"].min()), int(shares["length"].max())
    told = [f"{part} {count / total:.0%}" for part, count in parameters.items()]
    ends = [
        f"at {length} words "
        + ", ".join(f"{row.part} {row.share:.0%}" for row in shares[shares["length"] == length].itertuples())
        for length in (shortest, longest)
    ]
    picture = alt.hconcat(
        left.properties(title=panel_title(f"{total:,} parameters")),
        right.properties(title=panel_title("multiplications for each word")),
        spacing=40,
    )
    return picture.properties(
        title=alt.Title(title),
        description=f"{title} Parameters: {', '.join(told)}. Multiplications: {'; '.join(ends)}.",
    )


def _parts(parameters: Mapping[str, int], multiplications: pd.DataFrame) -> list[str]:
    missing = [name for name in COLUMNS if name not in multiplications.columns]
    if missing:
        raise ValueError(f"multiplications: expected the columns {COLUMNS}, missing {missing}.")
    if multiplications.empty or not parameters:
        raise ValueError("parameters and multiplications: expected at least one part in each, got none.")
    if min(parameters.values()) < 0 or sum(parameters.values()) == 0:
        raise ValueError(f"parameters: expected counts of 0 or more, not all 0, got {dict(parameters)}.")
    if (multiplications["length"] < 1).any() or (multiplications["multiplications"] < 0).any():
        raise ValueError("multiplications: expected lengths of 1 or more and counts of 0 or more.")
    parts = list(dict.fromkeys([*parameters, *multiplications["part"]]))
    if len(parts) > len(COLOURS):
        raise ValueError(f"parts: expected at most {len(COLOURS)}, got {len(parts)}: {', '.join(parts)}.")
    return parts


def _with_shares(multiplications: pd.DataFrame) -> pd.DataFrame:
    totals = multiplications.groupby("length")["multiplications"].transform("sum")
    if (totals == 0).any():
        raise ValueError("multiplications: expected some at each length, got a length with none.")
    return multiplications.assign(share=multiplications["multiplications"] / totals)


def _placed(table: pd.DataFrame, parts: list[str]) -> pd.DataFrame:
    """The parts in the order in which they are stacked."""
    return table.assign(order=[parts.index(part) for part in table["part"]])


def _parameters(table: pd.DataFrame, colour: alt.Color) -> alt.LayerChart:
    """One bar, cut into the parts, with their shares written in."""
    # Stacked from the bottom in the order of the parts.
    table = table.sort_values("order")
    table["above"] = table["share"].cumsum()
    table["below"] = table["above"] - table["share"]
    table["middle"] = (table["above"] + table["below"]) / 2
    table["shown"] = [f"{share:.0%}" if share >= 0.04 else "" for share in table["share"]]
    table["ink"] = [ink_on(COLOURS[order]) for order in table["order"]]
    base = alt.Chart(table)
    bar = base.mark_bar(width=90).encode(
        x=alt.X("all:N", title=None, axis=None),
        y=alt.Y(
            "below:Q",
            title="share of the parameters",
            axis=alt.Axis(format="%"),
            scale=alt.Scale(domain=[0, 1]),
        ),
        y2="above:Q",
        color=colour,
        tooltip=[
            alt.Tooltip("part:N", title="part"),
            alt.Tooltip("parameters:Q", format=","),
            alt.Tooltip("share:Q", format=".1%"),
        ],
    )
    text = base.mark_text(fontWeight="bold", aria=False).encode(
        x="all:N", y="middle:Q", text="shown:N", fill=alt.Fill("ink:N", scale=None)
    )
    return alt.LayerChart(layer=[bar, text], width=130, height=HEIGHT)


def _arithmetic(table: pd.DataFrame, colour: alt.Color) -> alt.Chart:
    """Areas: the parts' shares at each length."""
    return (
        alt.Chart(table)
        .mark_area(opacity=1)
        .encode(
            x=alt.X(
                "length:Q",
                title="words in the sentence (log scale)",
                scale=alt.Scale(type="log", base=2, nice=False),
                axis=alt.Axis(format=",", tickCount=7),
            ),
            y=alt.Y(
                "share:Q",
                title="share of the multiplications",
                stack="zero",
                axis=alt.Axis(format="%"),
                scale=alt.Scale(domain=[0, 1]),
            ),
            color=colour,
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("part:N", title="part"),
                alt.Tooltip("length:Q", title="words", format=","),
                alt.Tooltip("multiplications:Q", title="multiplications a word", format=","),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
        .properties(width=400, height=HEIGHT)
    )
