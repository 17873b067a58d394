"""The charts of lesson 01 on why scores are divided by the square root of d_k (paper, section 3.2.1)."""

import math
from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.inputs import Floats, Numbers, as_words, check_above, from_tensor
from course_lib.charts.marks import (
    captioned,
    fixed_x,
    fixed_y,
    index_x,
    note,
    powers_of_ten,
    scale_of,
    series,
    tips,
    word_axis,
)
from course_lib.charts.theme import ALARM_INK, CATEGORIES, QUIET_INK, WIDTH, Picture


def score_spread(samples: Mapping[int, Numbers]) -> Picture:
    """Draw the distributions of dot products for several values of d_k, and their standard deviations.

    `samples` maps d_k to undivided dot products of vectors of this length, in any shape. The outlines on the
    left are scaled to the same height; a bar extends one standard deviation to each side of the mean. The
    dashed line on the right is the square root of d_k. Raises ValueError if the products for a d_k aren't
    finite.
    """
    products = {
        width: from_tensor(values, f"samples[{width}]", range(1, 9), finite=True).ravel()
        for width, values in samples.items()
    }
    summary = pd.DataFrame(
        {"d_k": width, "mean": products[width].mean(), "spread": products[width].std()}
        for width in sorted(products)
    )
    summary["root"] = np.sqrt(summary["d_k"])
    reach = float((summary["mean"].abs() + 3.5 * summary["spread"]).max())
    row_height, gap = 48, 6
    rows = [
        _outline(products[width], width, reach, row_height, last=width == max(products))
        for width in summary["d_k"]
    ]
    outlines = alt.vconcat(*rows, spacing=gap).resolve_scale(y="independent")
    growth = _growth(summary).properties(height=max(3, len(summary)) * (row_height + gap) - gap)
    details = [
        f"{spread:.2f} at d_k = {width}, whose root is {root:.2f}"
        for width, spread, root in summary[["d_k", "spread", "root"]].itertuples(index=False)
    ]
    return captioned(
        alt.hconcat(outlines, growth, spacing=40),
        "How widely do dot products spread?",
        "Bars on the left reach one standard deviation to each side of the mean.",
        f"Standard deviation of the dot products: {'; '.join(details)}.",
    )


def _outline(values: Floats, width: int, reach: float, height: int, *, last: bool) -> alt.LayerChart:
    """Draw the outline of a histogram of `values`, with their standard deviation as a bar and a number."""
    mean, spread = float(values.mean()), float(values.std())
    shares, edges = np.histogram(values, np.linspace(values.min(), values.max(), 31))
    outline = pd.DataFrame(
        {"product": (edges[1:] + edges[:-1]) / 2, "share": shares / len(values), "d_k": width}
    )
    title = "dot product of a query and a key" if last else None
    axis = alt.Axis(title=title, labels=last, ticks=last, domain=last)
    area = (
        alt.Chart(outline)
        .mark_area(interpolate="monotone", color=CATEGORIES[0], opacity=0.4, clip=True)
        .encode(
            x=fixed_x("product", -reach, reach, axis),
            y=alt.Y("share:Q", axis=None),
            tooltip=tips(
                ("d_k:Q", "d_k"), ("product:Q", "dot product", ".3~g"), ("share:Q", "share of all", ".1%")
            ),
        )
    )
    ends = alt.Chart(pd.DataFrame({"low": [mean - spread], "high": [mean + spread]}))
    bar = ends.mark_rule(strokeWidth=3, color=CATEGORIES[1]).encode(
        x="low:Q", x2="high:Q", y=alt.value(height - 4)
    )
    across = 310
    names = note(f"d_k = {width}", 2, 12, bold=True), note(f"± {spread:.2f}", across, 12, align="right")
    return alt.LayerChart(layer=[area, bar, *names], width=across, height=height)


def _growth(summary: pd.DataFrame) -> alt.LayerChart:
    """Draw the standard deviation of the dot products and the square root of d_k, both against d_k."""
    scale = alt.Scale(type="log", base=2, nice=False, padding=12)
    widths = alt.Axis(values=summary["d_k"].tolist(), format="d", labelOverlap=True)
    title = "standard deviation (log scale)"
    axis = alt.Axis(format="~g", tickCount=6, labelOverlap=True, title=title)
    base = alt.Chart(summary).encode(x=alt.X("d_k:Q", title="d_k (log scale)", scale=scale, axis=widths))
    root = base.mark_line(strokeDash=[6, 4], color=QUIET_INK).encode(
        y=alt.Y("root:Q", scale=scale, axis=axis)
    )
    points = base.mark_point(filled=True, size=80, opacity=1, color=CATEGORIES[1]).encode(
        y=alt.Y("spread:Q", scale=scale),
        tooltip=tips(
            ("d_k:Q", "d_k"), ("spread:Q", "standard deviation", ".4~g"), ("root:Q", "root of d_k", ".4~g")
        ),
    )
    name = (
        alt.Chart(summary.tail(1))
        .mark_text(align="right", dx=-16, fontStyle="italic", color=QUIET_INK, text="root of d_k")
        .encode(x="d_k:Q", y="root:Q")
    )
    return alt.LayerChart(layer=[root, points, name], width=220)


SERIES = ["divided", "undivided"]


def softmax_saturation(table: pd.DataFrame) -> Picture:
    """Draw the largest attention weight and the size of the softmax's gradient, both against d_k.

    `table` has one row for each random draw of a query and its keys:

    - `d_k`: the width of queries and keys, 1 or more;
    - `divided`: True if the dot products were divided by the square root of d_k;
    - `largest_weight`: the largest weight that softmax returned, 0 to 1;
    - `gradient`: the sensitivity of the weights to the scores, 0 or more, for example the Frobenius norm of
      the softmax's Jacobian, diag(w) - w w^T.

    Lines are means over the draws; bands hold 80% of them (from the 10th to the 90th percentile). Raises
    ValueError for weights or gradients that aren't finite, and if no gradient is above 0.
    """
    for column in ("largest_weight", "gradient"):
        check_above(-math.inf, table, column, "finite numbers")
    if not (table["gradient"] > 0).any():
        raise ValueError("table: expected a gradient above 0, got only zeros, which a log scale cannot show.")
    summary = _summarise(table)
    floor = float(summary.loc[summary["gradient"] > 0, "gradient"].min()) / 4
    shown = ["gradient", "gradient_low", "gradient_high"]
    weights = _against_width(
        summary,
        "largest_weight",
        alt.Scale(domain=[0, 1]),
        alt.Axis(title="largest attention weight", tickCount=5),
    )
    axis = powers_of_ten(floor, float(summary["gradient"].max()), decades_with_steps=6)
    axis["title"] = "size of the softmax's gradient (log scale)"
    gradients = _against_width(
        summary.assign(**{name: summary[name].clip(lower=floor) for name in shown}),
        "gradient",
        alt.Scale(type="log", domainMin=floor, nice=False),
        axis,
    )
    widest = summary[summary["d_k"] == summary["d_k"].max()]
    details = [
        f"{name}: largest weight {weight:.2f}, gradient {gradient:.2g}"
        for name, weight, gradient in widest[["series", "largest_weight", "gradient"]].itertuples(index=False)
    ]
    subtitle = "Lines: mean over random draws. Bands: 80% of the draws; they may extend below the log axis."
    chart = alt.hconcat(weights, gradients, spacing=30).resolve_scale(y="independent")
    means = f"Means at d_k = {summary['d_k'].max()}: {'; '.join(details)}."
    return captioned(
        chart, "Without the root of d_k, softmax saturates and its gradient fades", subtitle, means
    )


def _summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Return means and percentiles for each d_k, separately for divided and for undivided dot products."""
    groups = table.assign(series=np.where(table["divided"], *SERIES)).groupby(["d_k", "series"])
    numbers = groups[["largest_weight", "gradient"]]
    low, high = (numbers.quantile(share).add_suffix(end) for share, end in ((0.1, "_low"), (0.9, "_high")))
    return pd.concat([numbers.mean(), low, high], axis=1).reset_index()


def _against_width(summary: pd.DataFrame, name: str, scale: alt.Scale, axis: alt.Axis) -> alt.LayerChart:
    """Draw the column `name` of `summary` against d_k: a line and its band for each series."""
    widths = sorted(summary["d_k"].unique().tolist())
    x = alt.X(
        "d_k:Q",
        title="d_k, width of queries and keys (log scale)",
        scale=alt.Scale(type="log", base=2, nice=False),
        axis=alt.Axis(values=widths, format="d", labelOverlap=True),
    )

    def up(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=scale, axis=axis)

    colour, dash = series("series:N", SERIES)
    inks = scale_of(SERIES, (CATEGORIES[0], ALARM_INK))
    base = alt.Chart(summary).encode(x=x, color=colour)
    band = base.mark_area(opacity=0.18, clip=True).encode(y=up(f"{name}_low"), y2=f"{name}_high")
    line = base.mark_line(strokeWidth=2.5).encode(y=up(name), strokeDash=dash)
    points = base.mark_point(filled=True, size=55, opacity=1).encode(
        y=up(name),
        shape=alt.Shape("series:N", scale=scale_of(SERIES, ("circle", "square")), legend=None),
        tooltip=tips(
            ("d_k:Q", "d_k"),
            ("series:N", "dot products"),
            (f"{name}:Q", "mean", ".3~g"),
            (f"{name}_low:Q", "10th percentile", ".3~g"),
            (f"{name}_high:Q", "90th percentile", ".3~g"),
        ),
    )
    ends = summary[summary["d_k"] == widths[-1]].sort_values(name)
    names = [
        alt.Chart(end)
        .mark_text(align="right", dy=18 if rank == 0 else -14, fontWeight="bold")
        .encode(x=x, y=up(name), text="series:N", fill=alt.Fill("series:N", scale=inks, legend=None))
        for rank, (_, end) in enumerate(ends.groupby(name))
    ]
    return alt.LayerChart(layer=[band, line, points, *names], width=270, height=240)


FACTOR = "score_factor"
"""The name of the slider's parameter."""

MAX_GRADIENT = 0.5
"""The largest possible Frobenius norm of the softmax's Jacobian, reached if two weights are one half."""


def softmax_temperature(scores: Numbers, keys: Sequence[str]) -> Picture:
    """Draw softmax(factor * scores) over one query's keys as bars, with a slider for the factor.

    The reciprocal of the factor is known as the temperature. `scores` has one axis, with a finite score for
    each of the words in `keys`. The bar on the right is the Frobenius norm of the softmax's Jacobian,
    diag(w) - w w^T, which limits the gradient that reaches the scores. The weights and the norm are computed
    in the browser. Raises ValueError if the scores aren't finite, or if there isn't one word for each score.
    """
    row = from_tensor(scores, "scores", (1,), finite=True)
    words = as_words(keys, len(row), "keys")
    handle = alt.binding_range(min=0, max=25, step=0.25, name="Multiply the scores by: ")
    frame = pd.DataFrame({"key": range(len(row)), "word": words, "score": row, "above": row - row.max()})
    weights = (
        alt.Chart(frame)
        .transform_calculate(power=f"exp({FACTOR} * datum.above)")
        .transform_joinaggregate(total="sum(power)")
        .transform_calculate(weight="datum.power / datum.total")
    )
    subtitle = (
        "Drag the slider below. At 0 all weights are equal; far to the right one key takes all the weight."
    )
    details = ", ".join(f"{word} {score:.3g}" for word, score in zip(words, row.tolist(), strict=True))
    chart = alt.hconcat(_weight_bars(weights, words), _gradient_bar(weights), spacing=24)
    return captioned(
        chart.add_params(alt.param(name=FACTOR, value=1, bind=handle)),
        "How sharp does softmax become when the scores grow?",
        subtitle,
        f"Scores: {details}. A slider multiplies them; bars show the softmax and the size of its gradient.",
    )


def _weight_bars(weights: alt.Chart, words: list[str]) -> alt.LayerChart:
    """Draw the weights as bars, their values in a row above, and a line at the height of equal weights."""
    step = min(70, (WIDTH - 240) // len(words))
    axis = alt.Axis(title="softmax weight", values=[0, 0.25, 0.5, 0.75, 1], format=".2f")
    keys = word_axis(words, step, orient="bottom")
    base = weights.encode(
        x=index_x("key", len(words), "key", keys),
        tooltip=tips(
            ("word:N", "key"), ("score:Q", "score before the factor", ".3~g"), ("weight:Q", "weight", ".4~g")
        ),
    )
    bars = base.mark_bar(color=CATEGORIES[0], width=0.7 * step).encode(y=fixed_y("weight", 0, 1.15, axis))
    # Write the values in a row above the bars, where the dashed line cannot run through them.
    numbers = base.mark_text(fontSize=max(8, min(12, step // 3)), aria=False).encode(
        y=alt.value(10), text=alt.Text("weight:Q", format=".2f")
    )
    even = alt.Chart(pd.DataFrame({"even": [1 / len(words)]})).encode(y="even:Q")
    line = even.mark_rule(strokeDash=[5, 4], color=QUIET_INK)
    name = even.mark_text(align="left", dx=4, color=QUIET_INK, fontStyle="italic", text="all equal").encode(
        x=alt.value(step * len(words))
    )
    return alt.LayerChart(layer=[bars, line, numbers, name], width=step * len(words), height=220)


def _gradient_bar(weights: alt.Chart) -> alt.LayerChart:
    """Draw the Frobenius norm of diag(w) - w w^T as a bar: sqrt(sum w^2 - 2 sum w^3 + (sum w^2)^2)."""
    axis = alt.Axis(title="size of the softmax's gradient", values=[0, 0.1, 0.2, 0.3, 0.4, 0.5])
    norm = (
        weights.transform_calculate(square="pow(datum.weight, 2)", cube="pow(datum.weight, 3)")
        .transform_aggregate(squares="sum(square)", cubes="sum(cube)")
        .transform_calculate(gradient="sqrt(max(0, datum.squares - 2 * datum.cubes + pow(datum.squares, 2)))")
        .encode(
            x=alt.value(35),
            y=fixed_y("gradient", 0, 1.15 * MAX_GRADIENT, axis),
            tooltip=tips(("gradient:Q", "size of the gradient", ".4~g")),
        )
    )
    bar = norm.mark_bar(color=CATEGORIES[1], width=40)
    number = norm.mark_text(dy=-8, aria=False).encode(text=alt.Text("gradient:Q", format=".3f"))
    return alt.LayerChart(layer=[bar, number], width=70, height=220)
