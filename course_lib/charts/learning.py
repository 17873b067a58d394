"""A loss on its way down: drawn again and again while a model learns, so its axes stand still."""

import math
from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from course_lib.charts.colours import CATEGORIES, INK, QUIET_INK
from course_lib.charts.theme import Picture

ROOM = 1.08
"""How far the axis reaches beyond the highest loss."""


def learning_curve(
    losses: Sequence[float],
    updates: int,
    *,
    levels: Mapping[str, float] | None = None,
    title: str = "The loss, update by update",
) -> Picture:
    """The loss after each update so far, on an axis that reaches to the last of all `updates`.

    `losses` holds one loss an update. `levels` are heights to compare with, each a name and a loss, drawn as
    dashed lines. The upward axis begins at zero. Raises ValueError without a loss, for more losses than
    updates, or for numbers that aren't finite and 0 or more.
    """
    named = dict(levels or {})
    _check(losses, updates, named)
    table = pd.DataFrame({"update": range(1, len(losses) + 1), "loss": losses})
    highest = ROOM * (max([*losses, *named.values()]) or 1.0)
    x = alt.X(
        "update:Q",
        title="update of the weights",
        scale=alt.Scale(domain=[0, updates], nice=False),
        axis=alt.Axis(format=",d", tickCount=8),
    )
    y = alt.Y("loss:Q", title="loss", scale=alt.Scale(domain=[0, highest], nice=False))
    line = alt.Chart(table).mark_line(strokeWidth=2, color=CATEGORIES[0]).encode(x=x, y=y)
    touch = (
        alt.Chart(table)
        .mark_point(size=60, opacity=0, filled=True, aria=False)
        .encode(x=x, y=y, tooltip=[alt.Tooltip("update:Q"), alt.Tooltip("loss:Q", format=".3f")])
    )
    now = alt.Chart(table.tail(1).assign(shown=[f"{losses[-1]:.2f}"])).encode(x=x, y=y).properties(height=280)
    dot = now.mark_point(filled=True, size=70, opacity=1, color=CATEGORIES[0])
    number = now.mark_text(dy=-12, color=INK, aria=False).encode(text="shown:N")
    return alt.LayerChart(
        layer=[*_dashed(named, updates, y), line, touch, dot, number],
        width=600,
        height=280,
        title=alt.Title(title, subtitle=f"The number is the loss of update {len(losses):,}."),
        description=f"{title}. {_told(losses, named)}",
    )


def _dashed(levels: Mapping[str, float], updates: int, y: alt.Y) -> list[alt.Chart]:
    """A dashed line for each level, with its name at the right end."""
    if not levels:
        return []
    table = pd.DataFrame(
        {
            "loss": list(levels.values()),
            "name": [f"{name}: {level:.2f}" for name, level in levels.items()],
            "update": updates,
        }
    )
    lines = alt.Chart(table).mark_rule(strokeDash=[6, 4], color=QUIET_INK).encode(y=y)
    names = (
        alt.Chart(table)
        .mark_text(align="right", dy=12, color=QUIET_INK)
        .encode(x=alt.X("update:Q", scale=alt.Scale(domain=[0, updates], nice=False)), y=y, text="name:N")
    )
    return [lines, names]


def _told(losses: Sequence[float], levels: Mapping[str, float]) -> str:
    told = [f"From {losses[0]:.2f} at update 1 to {losses[-1]:.2f} at update {len(losses):,}"]
    return "; ".join([*told, *(f"{name}: {level:.2f}" for name, level in levels.items())]) + "."


def _check(losses: Sequence[float], updates: int, levels: Mapping[str, float]) -> None:
    if not 1 <= len(losses) <= updates:
        raise ValueError(
            f"losses: expected 1 to {updates} of them, one an update, got {len(losses)}. Draw after one."
        )
    for name, numbers in (("losses", losses), ("levels", levels.values())):
        for number in numbers:
            if not (math.isfinite(number) and number >= 0):
                raise ValueError(f"{name}: expected finite numbers of 0 or more, got {number}.")
