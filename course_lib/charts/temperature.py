"""Softmax under a slider: what happens when the scores grow or shrink."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Numbers, as_words, from_tensor
from course_lib.charts.cells import word_axis
from course_lib.charts.colours import CATEGORIES, QUIET_INK
from course_lib.charts.theme import WIDTH, Picture

FACTOR = "score_factor"
HEIGHT = 220
LARGEST_GRADIENT = 0.5
"""The softmax's Jacobian is largest for two weights of one half: its Frobenius norm is one half then."""


def softmax_temperature(
    scores: Numbers,
    keys: Sequence[str] | None = None,
    *,
    factor: float = 1.0,
    largest_factor: float = 8.0,
    title: str = "How sharp does softmax become when the scores grow?",
) -> Picture:
    """Bars of softmax(factor * scores) over one query's keys, with a slider for the factor.

    One over the factor is known as the temperature.

    `scores` has one axis, a finite score for each key; `keys` are the words, by default their numbers.
    `factor` is where the slider stands first, `largest_factor` its right end. The bar on the right is the
    Frobenius norm of the softmax's Jacobian, diag(w) - w w^T, computed in the browser like the weights: the
    size of what a step of training can feel. Raises ValueError for scores that aren't finite or factors
    outside 0 to `largest_factor`.
    """
    row = from_tensor(scores, "scores", (1,))
    if not np.isfinite(row).all():
        raise ValueError(f"scores: expected finite numbers, got {row.tolist()}. Leave masked keys out.")
    if not 0 <= factor <= largest_factor:
        raise ValueError(f"factor: expected 0 to {largest_factor:g}, the slider's range, got {factor:g}.")
    numbers = [str(number) for number in range(len(row))]
    words = as_words(numbers if keys is None else keys, len(row), "keys")
    slider = alt.param(
        name=FACTOR,
        value=factor,
        bind=alt.binding_range(
            min=0, max=largest_factor, step=largest_factor / 80, name="Multiply the scores by: "
        ),
    )
    frame = pd.DataFrame({"key": range(len(row)), "word": words, "score": row, "above": row - row.max()})
    weights = (
        alt.Chart(frame)
        .transform_calculate(power=f"exp({FACTOR} * datum.above)")
        .transform_joinaggregate(total="sum(power)")
        .transform_calculate(weight="datum.power / datum.total")
    )
    picture = alt.hconcat(_bars(weights, words), _gradient(weights), spacing=24)
    return picture.add_params(slider).properties(
        title=alt.Title(
            title, subtitle="Drag the slider below. At 0 all weights are equal, far right one takes it all."
        ),
        description=f"{title} Scores: "
        + ", ".join(f"{word} {score:.3g}" for word, score in zip(words, row.tolist(), strict=True))
        + ". A slider multiplies them; bars show the softmax and the size of its gradient.",
    )


def _bars(weights: alt.Chart, words: list[str]) -> alt.LayerChart:
    """The weights, one bar a key, with their values above and a line where all would be equal."""
    step = min(70, (WIDTH - 240) // len(words))
    base = weights.encode(
        x=alt.X("key:O", title="key", axis=word_axis(words, step, orient="bottom")),
        y=alt.Y(
            "weight:Q",
            title="softmax weight",
            scale=alt.Scale(domain=[0, 1.08], nice=False),
            axis=alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".2f"),
        ),
        tooltip=[
            alt.Tooltip("word:N", title="key"),
            alt.Tooltip("score:Q", title="score before the factor", format=".3~g"),
            alt.Tooltip("weight:Q", title="weight", format=".4~g"),
        ],
    )
    bars = base.mark_bar(color=CATEGORIES[0], width=0.7 * step)
    numbers = base.mark_text(dy=-8, fontSize=max(8, min(12, step // 3)), aria=False).encode(
        text=alt.Text("weight:Q", format=".2f")
    )
    even = alt.Chart(pd.DataFrame({"even": [1 / len(words)], "name": ["all equal"]})).encode(y="even:Q")
    line = even.mark_rule(strokeDash=[5, 4], color=QUIET_INK)
    name = even.mark_text(align="left", dx=4, dy=-1, color=QUIET_INK, fontStyle="italic").encode(
        x=alt.value(step * len(words)), text="name:N"
    )
    return alt.LayerChart(layer=[line, bars, numbers, name], width=step * len(words), height=HEIGHT)


def _gradient(weights: alt.Chart) -> alt.LayerChart:
    """One bar: the norm of diag(w) - w w^T, the root of sum w^2 - 2 sum w^3 + (sum w^2)^2."""
    norm = (
        weights.transform_calculate(square="pow(datum.weight, 2)", cube="pow(datum.weight, 3)")
        .transform_aggregate(squares="sum(square)", cubes="sum(cube)")
        .transform_calculate(gradient="sqrt(max(0, datum.squares - 2 * datum.cubes + pow(datum.squares, 2)))")
        .encode(
            x=alt.value(35),
            y=alt.Y(
                "gradient:Q",
                title="size of the softmax's gradient",
                scale=alt.Scale(domain=[0, LARGEST_GRADIENT * 1.08], nice=False),
                axis=alt.Axis(values=[0, 0.1, 0.2, 0.3, 0.4, 0.5]),
            ),
            tooltip=[alt.Tooltip("gradient:Q", title="size of the gradient", format=".4~g")],
        )
    )
    bar = norm.mark_bar(color=CATEGORIES[1], width=40)
    number = norm.mark_text(dy=-8, aria=False).encode(text=alt.Text("gradient:Q", format=".3f"))
    return alt.LayerChart(layer=[bar, number], width=70, height=HEIGHT)
