"""How long sentences are: a histogram for each way of cutting them into tokens."""

from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from course_lib.charts.colours import ALARM_INK, CATEGORIES, QUIET_INK
from course_lib.charts.theme import WIDTH, Picture

ROW, GAP, ROOM, MOST = 74, 12, 60, 6
"""Pixels: the height of a histogram, the gap between two, what the axis takes. Then: histograms at most."""


def length_histograms(
    lengths: Mapping[str, Sequence[int]], *, title: str = "How many tokens has a sentence?"
) -> Picture:
    """One histogram above the other on one axis, each with its mean and its longest sentence.

    `lengths` maps a name to the lengths of all sentences; six names at most. Raises ValueError for none or
    too many, for a name without sentences, or for a length below 0.
    """
    if not 1 <= len(lengths) <= MOST:
        raise ValueError(f"lengths: expected 1 to {MOST} names, got {len(lengths)}.")
    for name, numbers in lengths.items():
        if len(numbers) == 0 or min(numbers) < 0:
            found = f"{min(numbers)}" if len(numbers) else "none"
            raise ValueError(f"lengths[{name!r}]: expected lengths of 0 or more, got {found}.")
    longest = max(max(numbers) for numbers in lengths.values())
    panels = [
        _histogram(name, pd.Series(numbers), longest, CATEGORIES[place], last=place == len(lengths) - 1)
        for place, (name, numbers) in enumerate(lengths.items())
    ]
    told = [f"{name}: {_numbers(pd.Series(numbers))}" for name, numbers in lengths.items()]
    return alt.vconcat(*panels, spacing=GAP).properties(
        title=alt.Title(title, subtitle="A bar for each length. The dashed line is the mean."),
        description=f"{title} {'; '.join(told)}.",
    )


def _numbers(lengths: pd.Series) -> str:
    return f"mean {lengths.mean():.1f}, longest {lengths.max()}"


def _histogram(name: str, lengths: pd.Series, longest: int, colour: str, *, last: bool) -> alt.LayerChart:
    counts = lengths.value_counts().rename_axis("length").reset_index(name="sentences")
    x = alt.X(
        "length:Q",
        title="tokens in a sentence" if last else None,
        scale=alt.Scale(domain=[0, longest + 1], nice=False),
        axis=alt.Axis(labels=last, ticks=last, grid=False),
    )
    bars = (
        alt.Chart(counts)
        .mark_bar(color=colour, opacity=0.75, width=max(1.0, 0.8 * (WIDTH - ROOM) / (longest + 1)))
        .encode(
            x=x,
            y=alt.Y("sentences:Q", title=None, axis=alt.Axis(tickCount=2, format="~s")),
            tooltip=[alt.Tooltip("length:Q", title="tokens"), alt.Tooltip("sentences:Q", format=",")],
        )
    )
    said = pd.DataFrame({"length": [float(lengths.mean())], "name": [name], "told": [_numbers(lengths)]})
    mean = alt.Chart(said).mark_rule(strokeDash=[5, 3], strokeWidth=2, color=ALARM_INK).encode(x=x)
    base = alt.Chart(said).encode(x=alt.value(WIDTH - ROOM - 2))
    title = base.mark_text(align="right", fontWeight="bold").encode(y=alt.value(10), text="name:N")
    told = base.mark_text(align="right", color=QUIET_INK).encode(y=alt.value(27), text="told:N")
    return alt.LayerChart(layer=[bars, mean, title, told], width=WIDTH - ROOM, height=ROW)
