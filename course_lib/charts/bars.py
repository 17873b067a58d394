"""The bar chart that several lessons use."""

from collections.abc import Collection

import altair as alt
import pandas as pd

from course_lib.charts.inputs import check_above, check_count
from course_lib.charts.marks import captioned, fixed_x, panel_title, scale_of, tips
from course_lib.charts.theme import CATEGORIES, INK, MASKED_FILL, QUIET_INK, Picture, ink_on

LENGTH, ROW, LETTER = 400, 27, 7
"""Pixels: the length of the longest bar, the distance between two bars, and the width of a letter."""

MAGNITUDES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def named_bars(
    table: pd.DataFrame,
    *,
    title: str,
    across: str = "",
    unit: str = "",
    shares: bool = False,
    pale: Collection[str] = (),
) -> Picture:
    """Draw a horizontal bar for each name, with the size at the end of the bar.

    `table` has the columns `bar` (a name) and `size`, and up to three others: `panel`, to draw bars in
    several panels; `kind` (at most seven), to draw parts of a bar in different colours; and `note`, a text
    for the end of a bar, instead of its size. Sizes of equal names are added up. `across` is the title of the
    x axis, which all panels share. Without it, the panels are side by side, and each has its own scale.
    `unit` is written after each size. With `shares`, each bar also shows its share of the panel, and each
    panel its total. Kinds in `pale` are grey. Raises ValueError for too many kinds, and for sizes that are
    negative or not finite.
    """
    check_above(-1e-9, table, "size", "sizes of 0 or more")
    given = [name for name in ("panel", "bar", "kind") if name in table]
    table = table.assign(**{name: "" for name in ("panel", "kind", "note") if name not in table})
    parts = table.groupby(["panel", "bar", "kind", "note"], sort=False, as_index=False)["size"].sum()
    bars, kinds = list(parts["bar"].unique()), list(parts["kind"].unique())
    check_count(len(kinds), len(CATEGORIES), "table", "kinds")
    of_bar, of_panel = (parts.groupby(names, sort=False)["size"] for names in (["panel", "bar"], "panel"))
    whole, total = of_bar.transform("sum"), of_panel.transform("sum")
    parts["end"] = of_bar.cumsum()
    parts["start"], parts["middle"] = parts["end"] - parts["size"], parts["end"] - parts["size"] / 2
    longest = whole.groupby(parts["panel"]).transform("max")
    parts["reach"] = (longest.clip(lower=longest.max()) if across else longest).replace(0, 1)
    length = LENGTH if across else LENGTH // parts["panel"].nunique()

    written = [_brief(size, unit) for size in whole]
    if shares:
        parts["panel"] += [f": {_brief(size, unit)}" for size in total]
        written = [f"{size}, {_percent(share)}" for size, share in zip(written, whole / total, strict=True)]
    parts["written"] = parts["note"].where(parts["note"] != "", written)
    # A part of a bar shows its size only if the text fits into the part.
    parts["shown"] = [_brief(size, unit) if len(kinds) > 1 else "" for size in parts["size"]]
    parts.loc[LETTER * parts["shown"].str.len() > length * parts["size"] / parts["reach"], "shown"] = ""
    fills = [MASKED_FILL if kind in pale else fill for kind, fill in zip(kinds, CATEGORIES, strict=False)]
    parts["ink"] = parts["kind"].map(dict(zip(kinds, map(ink_on, fills), strict=True)))

    legend = alt.Legend(title=None, orient="bottom", symbolType="square") if len(kinds) > 1 else None
    names = alt.Axis(domain=False, ticks=False, labelLimit=220, labelPadding=8)
    fields = tips(*((f"{name}:N", name) for name in given), ("size:Q", across or "size", ","))
    base = alt.Chart().encode(
        y=alt.Y("bar:N", sort=bars, scale=alt.Scale(domain=bars), title=None, axis=names),
        color=alt.Color("kind:N", sort=kinds, scale=scale_of(kinds, fills), legend=legend),
        tooltip=[*fields, *tips(("written:N", "in total"))],
    )
    panels, details = [], []
    for name in parts["panel"].unique():
        rows = parts[parts["panel"] == name]
        axis = alt.Axis(title=across, format="~s", tickCount=6) if across else None
        panel = _layers(base, rows, axis).properties(width=length, height=ROW * len(bars))
        panels.append(panel.properties(title=panel_title(name, anchor="start")) if name else panel)
        texts = rows.groupby("bar", sort=False)["written"].first()
        told = "; ".join(f"{bar}: {text}" for bar, text in texts.items())
        details.append(f"{name}. {told}" if name else told)
    subtitle = "k: thousands, M: millions, G: billions."
    if not across and len(panels) > 1:
        subtitle += " Each panel has its own scale, from zero."
    chart = alt.vconcat(*panels, spacing=14) if across else alt.hconcat(*panels, spacing=24)
    return captioned(chart, title, subtitle, f"{'. '.join(details)}.")


def _layers(base: alt.Chart, rows: pd.DataFrame, axis: alt.Axis | None) -> alt.LayerChart:
    """Draw the bars of a panel, and the texts in and after them. `base` has the encodings of all panels."""
    reach = float(rows["reach"].iloc[0])
    start, middle, end = (fixed_x(field, 0, reach, axis) for field in ("start", "middle", "end"))
    bars = base.mark_bar(height=ROW - 7, stroke=QUIET_INK, strokeWidth=0.8).encode(x=start, x2="end:Q")
    texts = base.mark_text(fontSize=11, aria=False).encode(text="shown:N", x=middle)
    ends = base.mark_text(align="left", dx=6, aria=False).encode(text="written:N", x=end)
    return alt.LayerChart(
        layer=[
            bars.properties(data=rows),
            texts.encode(color=alt.Color("ink:N", scale=None)).properties(data=rows),
            ends.encode(color=alt.value(INK)).properties(data=rows.drop_duplicates("bar", keep="last")),
        ]
    )


def _brief(size: float, unit: str) -> str:
    """Format a size with three significant digits and a letter for its magnitude: 56.9M, 252 MB."""
    power, letter = next(((p, letter) for p, letter in MAGNITUDES if size >= 0.9995 * p), (1, ""))
    return f"{size / power:.3g}{' ' if unit else ''}{letter}{unit}"


def _percent(share: float) -> str:
    return "under 1%" if 0 < share < 0.005 else f"{share:.0%}"
