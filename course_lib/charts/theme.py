"""Colours, fonts and sizes shared by all charts, and the functions that show a chart live or as SVG.

The categories are the colours of Okabe and Ito (2008) for colour-blind readers, without yellow, which is too
pale on white. Ramps change steadily in lightness (the signed ramp does so on each side of zero), so that
magnitudes can also be read in grey.
"""

import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from html import escape
from io import StringIO
from typing import Any, TypeAlias

import altair as alt
import pandas as pd

Picture: TypeAlias = (
    alt.Chart | alt.LayerChart | alt.FacetChart | alt.ConcatChart | alt.HConcatChart | alt.VConcatChart
)
"""The return type of every chart function of the course."""

CATEGORIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Blue, vermilion, green, purple, orange, sky blue, black. Lines and groups use them in this order."""

AMOUNTS = ("#f7fbff", "#c6dbef", "#6baed6", "#2171b5", "#08306b")
"""A ramp from zero to large values, for amounts such as attention weights."""

SIGNED = ("#7f3b08", "#c8691b", "#f3b775", "#f7f7f7", "#9ecae1", "#2b7bba", "#08306b")
"""A ramp from negative (brown) through zero (near white) to positive (blue), for scores, for example."""

DASHES = ([1, 0], [8, 4], [2, 3], [10, 3, 2, 3], [14, 4], [4, 2], [6, 2, 1, 2])
"""One pattern for each category, so that lines can be told apart without colour."""

INK = "#1f2328"
QUIET_INK = "#59636e"
LINE = "#d0d7de"
MASKED_FILL = "#e4e4e4"
MASKED_INK = "#5c5c5c"
EQUAL_FILL = "#f3f5f7"
ALARM_FILL = "#fbd9c4"
ALARM_INK = "#a33f00"
NO_NUMBER_FILL = "#1a1a1a"

WIDTH = 700
"""The width of a picture in pixels, which fits a notebook's output area on a small laptop."""

FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
MONOSPACE = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
NAME = "build-the-transformer"

ID = re.compile(r'(<\w+ id="|="url\(#)([^")]+)')
"""A pattern for the definition or use of an id in an SVG, such as the id of a clipping area or gradient."""

_EMPTY_MARKS = re.compile(r'<g class="mark-[^>]*(?:/>|></g>)')


def red_green_blue(colour: str) -> tuple[float, float, float]:
    """Return the three channels of "#rrggbb", each from 0 to 1."""
    return tuple(int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))  # type: ignore[return-value]


def on_ramp(ramp: Sequence[str], fraction: float) -> str:
    """Return the colour at `fraction` of a ramp (0 to 1, clamped), interpolated linearly as Vega does."""
    position = min(max(fraction, 0.0), 1.0) * (len(ramp) - 1)
    step = min(int(position), len(ramp) - 2)
    low, high = map(red_green_blue, ramp[step : step + 2])
    mixed = (a + (b - a) * (position - step) for a, b in zip(low, high, strict=True))
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in mixed)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, from 0 (black) to 1 (white), as WCAG 2.2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in red_green_blue(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, from 1 (none) to 21. Text needs 4.5 (WCAG 2.2, level AA)."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def ink_on(fill: str) -> str:
    """Return black or white, whichever is easier to read on `fill`."""
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, fill))


def readable(colour: str) -> str:
    """Return the colour, darkened if necessary until its contrast with white is sufficient for text."""
    while contrast(colour, "#ffffff") < 4.5:
        colour = on_ramp(("#000000", colour), 0.9)
    return colour


@alt.theme.register(NAME, enable=False)
def course_theme() -> alt.theme.ThemeConfig:
    """Return the altair theme: readable text, a white background, and colours for colour-blind readers."""
    labels = {"labelFontSize": 12, "titleFontSize": 12, "labelColor": INK}
    quiet_title = {"titleFontWeight": "normal", "titleColor": QUIET_INK}
    lines = {"domainColor": QUIET_INK, "tickColor": QUIET_INK, "gridColor": LINE, "gridOpacity": 0.6}
    subtitle = {"subtitleFontSize": 12, "subtitleColor": QUIET_INK, "subtitlePadding": 4}
    title = {"anchor": "start", "fontSize": 16, "fontWeight": "bold", "color": INK, "offset": 12}
    config = {
        "background": "white",
        "font": FONT,
        "padding": 8,
        "view": {"stroke": None},
        "axis": labels | quiet_title | lines,
        "title": title | subtitle,
        "header": labels | {"title": None, "labelAngle": 0, "labelPadding": -6},
        "legend": labels | quiet_title,
        "text": {"fontSize": 12, "color": INK},
        "range": {
            "category": list(CATEGORIES),
            "heatmap": list(AMOUNTS),
            "ramp": list(AMOUNTS),
            "diverging": list(SIGNED),
        },
    }
    return {"config": config}  # type: ignore[typeddict-item]


def show_offline() -> None:
    """Make notebooks show the course's charts live, in its theme and without the internet.

    A lesson calls this once, after importing the charts. altair's default renderer loads Vega from a server;
    the widgets that this function enables take it from the installed vl-convert. The menu next to a chart
    offers to save it, but has no link to the online editor.
    """
    alt.theme.enable(NAME)
    alt.renderers.enable(NAME)
    # altair limits tables to 5,000 rows. A long sentence has more weights in all layers and heads.
    alt.data_transformers.disable_max_rows()


def _as_widget(spec: dict[str, Any], **_: object) -> Any:
    """Return the MIME bundle of a widget that shows a chart. altair calls such a function a renderer."""
    alt.JupyterChart.enable_offline()
    menu = {"export": True, "source": False, "compiled": False, "editor": False}
    # Draw on a canvas, because live SVG charts on one page give their clipping areas the same ids.
    widget = alt.JupyterChart(None, embed_options={"actions": menu, "renderer": "canvas"})  # type: ignore[arg-type]
    # Bypass altair's own renderer. It converts this valid specification back to a chart and validates the
    # chart twice, which takes most of the time until the chart appears.
    widget.spec = spec
    return widget._repr_mimebundle_()


alt.renderers.register(NAME, _as_widget)


#: The size of the address space that vl-convert's JavaScript engine reserves, most of which stays unused.
_ADDRESS_SPACE = 66 * 2**30


def _require_address_space() -> None:
    """Raise RuntimeError if the limit on this process's address space is too low for drawing.

    Without this check, vl-convert would end the process.
    """
    if sys.platform == "win32":
        return
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _ADDRESS_SPACE:
        raise RuntimeError(
            f"Drawing needs {_ADDRESS_SPACE / 2**30:.0f} GiB of address space, but this process may use only "
            f"{limit / 2**30:.0f} GiB (`ulimit -v`). Raise this limit."
        )


def as_svg(chart: Picture) -> str:
    """Return the chart as one `<svg>` element, for pages without scripts, such as a feedback file.

    The element contains the chart's description for screen readers, and its ids are unique, so that a page
    can contain several charts. This needs neither a browser nor the internet. The first call in a process
    starts vl-convert, which takes longer. Raises RuntimeError if the process has too little address space.
    """
    _require_address_space()
    buffer = StringIO()
    with alt.theme.enable(NAME):
        chart.save(buffer, format="svg")
    svg = buffer.getvalue()
    svg = _EMPTY_MARKS.sub("", svg)  # Screen readers would announce empty marks.
    # vl-convert numbers ids consecutively within a process. Replace them with ids that depend only on the
    # chart.
    ids: dict[str, int] = {}
    svg = ID.sub(lambda match: f"{match[1]}{ids.setdefault(match[2], len(ids))}", svg)
    prefix = "c" + hashlib.sha256(svg.encode()).hexdigest()[:12] + "-"
    svg = ID.sub(lambda match: match[1] + prefix + match[2], svg)
    # Set the font once instead of for every word, which saves a third of a heat map's bytes.
    font = f' font-family="{FONT}"'
    # Let titles overflow the chart, because the browser's font may be wider than the one that vl-convert
    # measured.
    narrow = ' style="max-width:100%;height:auto;overflow:visible"'
    description = "" if chart.description is alt.Undefined else escape(str(chart.description))
    return svg.replace(font, "").replace(
        "<svg", f'<svg role="img" aria-label="{description}"{font}{narrow}', 1
    )


def as_table(chart: Picture) -> pd.DataFrame:
    """Return the values of a chart as a table, for readers who can't see the chart or want the numbers.

    The columns are the fields of the tooltips. If marks have different fields, the table contains only
    the group of marks with the most values. Raises ValueError if the chart has no tooltips with values.
    """
    with alt.data_transformers.disable_max_rows():
        spec = chart.to_dict()
    tables: dict[tuple[str, ...], list[pd.DataFrame]] = {}
    for tips, rows in _described_marks(spec, spec.get("data", {}), spec.get("datasets", {})):
        fields = {tip["field"]: tip.get("title") or tip["field"] for tip in tips if tip.get("field") in rows}
        if fields:
            table = rows[list(fields)].rename(columns=fields).drop_duplicates()
            tables.setdefault(tuple(fields.values()), []).append(table)
    if not tables:
        raise ValueError("this chart has no values with tooltips, so there is no table of it")
    largest = max(tables.values(), key=lambda parts: len(parts[0].columns) * sum(map(len, parts)))
    return pd.concat(largest, ignore_index=True).drop_duplicates(ignore_index=True)


def _described_marks(
    spec: dict[str, Any], data: dict[str, Any], datasets: dict[str, Any]
) -> Iterator[tuple[list[dict[str, Any]], pd.DataFrame]]:
    """Yield the tooltips and the data of each mark that has tooltips in a Vega-Lite specification.

    Marks without their own data use the enclosing `data`. `datasets` maps names to data.
    """
    data = spec.get("data", data)
    tips = spec.get("encoding", {}).get("tooltip", [])
    if tips and "mark" in spec:
        yield tips, pd.DataFrame(datasets.get(data.get("name", ""), data.get("values", [])))
    for part in ("layer", "hconcat", "vconcat", "concat"):
        for inner in spec.get(part, []):
            yield from _described_marks(inner, data, datasets)
    if isinstance(inner := spec.get("spec"), dict):
        yield from _described_marks(inner, data, datasets)
