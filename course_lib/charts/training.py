"""The charts of lessons 07 and 09: schedules, training loss, and each token's weight in the loss."""

import math
from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.inputs import (
    Numbers,
    as_words,
    check_count,
    from_tensor,
    mask_from_tensor,
)
from course_lib.charts.lines import curves_with_dots
from course_lib.charts.marks import Grid, Shades, captioned, cell_size, fixed_x, fixed_y, tips
from course_lib.charts.theme import AMOUNTS, CATEGORIES, QUIET_INK, WIDTH, Picture


def schedule_curves(
    table: pd.DataFrame, *, title: str = "How does the learning rate rise and fall?"
) -> Picture:
    """Draw the learning rate against the step, with a line for each schedule and a dot at its peak.

    `table` has one row for each `step` (1 or more) of each `schedule` (at most six), with its `rate`. Raises
    ValueError for more than six schedules.
    """
    check_count(table["schedule"].nunique(), 6, "table", "schedules")
    table = table.reset_index(drop=True)
    peaks = table.loc[table.groupby("schedule", sort=False)["rate"].idxmax()]
    peaks = peaks.assign(shown=[f"{rate:.2g}" for rate in peaks["rate"]])
    across = alt.Axis(title="step (update of the weights)", format=",d", tickCount=6)
    upward = alt.Axis(title="learning rate", format="~g", tickCount=6)
    highest = 1.12 * (float(table["rate"].max()) or 1.0)
    details = [
        f"{name}: {rate:.2g} at step {step:,}"
        for name, rate, step in peaks[["schedule", "rate", "step"]].itertuples(index=False)
    ]
    chart = curves_with_dots(
        table,
        peaks,
        x=alt.X("step:Q", axis=across),
        y=fixed_y("rate", 0, highest, upward),
        line="schedule",
        legend=alt.Legend(
            title=None, orient="bottom", columns=2, symbolType="stroke", symbolSize=900, labelLimit=320
        ),
        tooltip=tips(
            ("schedule:N", "schedule"), ("step:Q", "step", ","), ("rate:Q", "learning rate", ".4~g")
        ),
        number=alt.MarkDef(type="text", dx=7, dy=-9, align="left", aria=False),
    ).properties(width=600, height=300)
    subtitle = "A dot marks the peak of each schedule, with its learning rate."
    return captioned(chart, title, subtitle, f"Peaks: {'; '.join(details)}.")


def learning_curve(
    losses: Sequence[float],
    updates: int,
    *,
    levels: Mapping[str, float] | None = None,
    title: str = "The loss, update by update",
) -> Picture:
    """Draw the loss of each update so far. The x axis covers all `updates` from the beginning.

    `losses` holds one loss for each update so far. `levels` are named losses to compare with, drawn as dashed
    lines. The y axis begins at zero. Raises ValueError if a loss is negative or not finite.
    """
    named = dict(levels or {})
    for loss in losses:
        if not (math.isfinite(loss) and loss >= 0):
            raise ValueError(f"losses: expected finite, non-negative numbers, got {loss}.")
    highest = 1.08 * (max([*losses, *named.values()]) or 1.0)
    x = fixed_x("update", 0, updates, alt.Axis(title="update of the weights", format=",d", tickCount=8))
    y = fixed_y("loss", 0, highest, alt.Axis(title="loss"))
    table = pd.DataFrame({"update": range(1, len(losses) + 1), "loss": losses})
    base = alt.Chart(table).encode(x=x, y=y)
    line = base.mark_line(strokeWidth=2, color=CATEGORIES[0])
    touch = base.mark_point(size=60, opacity=0, filled=True, aria=False).encode(
        tooltip=tips(("update:Q", "update"), ("loss:Q", "loss", ".3f"))
    )
    now = alt.Chart(table.tail(1).assign(shown=[f"{losses[-1]:.2f}"])).encode(x=x, y=y)
    dot = now.mark_point(filled=True, size=70, opacity=1, color=CATEGORIES[0])
    number = now.mark_text(dy=-12, aria=False).encode(text="shown:N")
    layers = [line, touch, dot, number]
    if named:
        texts = [f"{name}: {level:.2f}" for name, level in named.items()]
        levels_table = pd.DataFrame({"loss": list(named.values()), "name": texts, "update": updates})
        level = alt.Chart(levels_table).encode(y=y)
        names = level.mark_text(align="right", dy=12, color=QUIET_INK).encode(x=x, text="name:N")
        layers = [level.mark_rule(strokeDash=[6, 4], color=QUIET_INK), names, *layers]
    details = [f"From {losses[0]:.2f} at update 1 to {losses[-1]:.2f} at update {len(losses):,}"]
    details += [f"{name}: {height:.2f}" for name, height in named.items()]
    chart = alt.LayerChart(layer=layers, width=600, height=280)
    subtitle = f"The number is the loss of update {len(losses):,}."
    return captioned(chart, title, subtitle, f"{'; '.join(details)}.")


def token_counts(counts: Mapping[str, Numbers], real: Numbers, sentences: Sequence[str]) -> Picture:
    """Draw a panel for each way to average the loss, with a row for each sentence and a cell for each token.

    Each entry of `counts` (at most three) is a matrix (sentences, positions) of the tokens' weights in the
    loss, relative to the weight of the average token. `real` is boolean and of the same shape, False at
    padding, which is crossed out. `sentences` name the rows. Raises ValueError if there isn't one name for
    each sentence, or if `real` isn't boolean.
    """
    matrices = {name: from_tensor(matrix, name, (2,)) for name, matrix in counts.items()}
    shape = next(iter(matrices.values())).shape
    kept = mask_from_tensor(real, shape)
    rows = as_words(sentences, shape[0], "sentences")
    gap = 24
    room = (WIDTH - 170 - gap * (len(matrices) - 1)) // len(matrices)
    positions = [str(position + 1) for position in range(shape[1])]
    grid = Grid(rows, positions, cell_size(shape[1], room, 34), ("sentence", "position", "counts"))
    # Use only light shades, on which small numbers are easy to read.
    shades = Shades(
        0.0, float(max(matrix.max() for matrix in matrices.values())) or 1.0, (*AMOUNTS[:2], "#9ecae1")
    )
    panels = {
        name: grid.numbers(np.where(kept, matrix, 0.0), shades, kept, _times)
        for name, matrix in matrices.items()
    }
    lines = ["1: as much as the average token.", "×: padding, which does not count."]
    details = []
    for name, matrix in matrices.items():
        means = [
            f"{row} {float(line[own].mean()):.2f}" if own.any() else f"{row} none"
            for row, line, own in zip(rows, matrix, kept, strict=True)
        ]
        details.append(f"{name}: a token of {', '.join(means)}")
    chart = grid.side_by_side(panels, gap=gap, ramp=shades)
    return captioned(
        chart, "How much does each token count?", lines[: 1 if kept.all() else 2], f"{'; '.join(details)}."
    )


def _times(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
