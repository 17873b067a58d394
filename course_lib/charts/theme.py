"""One look for all pictures, and the two ways to show them: live in a notebook, or as a still SVG."""

import hashlib
import re
from html import escape
from io import StringIO
from typing import TypeAlias

import altair as alt

from course_lib.charts.colours import AMOUNTS, CATEGORIES, INK, LINE, QUIET_INK, SIGNED

Picture: TypeAlias = alt.Chart | alt.LayerChart | alt.ConcatChart | alt.HConcatChart | alt.VConcatChart
"""What every chart function of the course hands back."""

WIDTH = 700
"""Pixels that a picture may take across: what a notebook's output area offers on a small laptop."""

FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
MONOSPACE = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
NAME = "build-the-transformer"

ID = re.compile(r'(<\w+ id="|="url\(#)([^")]+)')
"""A name inside an SVG: of a clip or a gradient, or of one that is used."""


@alt.theme.register(NAME, enable=False)
def course_theme() -> alt.theme.ThemeConfig:
    """Readable sizes on a white ground, quiet axes, and colours that colour-blind readers can tell apart."""
    axis = {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titleColor": QUIET_INK,
        "labelColor": INK,
        "domainColor": QUIET_INK,
        "tickColor": QUIET_INK,
        "gridColor": LINE,
        "gridOpacity": 0.6,
    }
    return {
        "config": {
            "background": "white",
            "font": FONT,
            "padding": 8,
            "view": {"stroke": None},
            "axis": axis,  # type: ignore[typeddict-item]
            "title": {
                "anchor": "start",
                "fontSize": 16,
                "fontWeight": "bold",
                "color": INK,
                "subtitleFontSize": 12,
                "subtitleColor": QUIET_INK,
                "subtitlePadding": 4,
                "offset": 12,
            },
            "header": {
                "labelFontSize": 12,
                "labelFontWeight": "bold",
                "labelColor": INK,
                "titleFontSize": 12,
            },
            "legend": {
                "labelFontSize": 12,
                "titleFontSize": 12,
                "titleFontWeight": "normal",
                "titleColor": QUIET_INK,
                "labelColor": INK,
            },
            "text": {"fontSize": 12, "color": INK},
            "range": {
                "category": list(CATEGORIES),
                "heatmap": list(AMOUNTS),
                "ramp": list(AMOUNTS),
                "diverging": list(SIGNED),
            },
        }
    }


def panel_title(name: str) -> alt.Title:
    """The name of one panel of several, smaller than the picture's title."""
    return alt.Title(name, fontSize=13, anchor="middle", offset=6)


def show_offline() -> None:
    """Make notebooks draw the course's pictures live, in its look and without the internet.

    A lesson calls this once, after importing the charts. altair's default renderer asks a server for Vega;
    the Jupyter renderer takes it from the installed vl-convert instead. The pictures' menu offers to save
    them; its link to an online editor is left out.
    """
    alt.theme.enable(NAME)
    menu = {"export": True, "source": False, "compiled": False, "editor": False}
    # On canvases: SVG pictures name their clipping areas alike, and on one page take each other's.
    options = {"actions": menu, "renderer": "canvas"}
    alt.renderers.enable("jupyter", offline=True, embed_options=options)


def as_svg(chart: Picture) -> str:
    """The picture as one `<svg>` element, for places that stand still: a failed check, a page of feedback.

    The element carries the chart's description for screen readers, and ids of its own, so that several can
    stand on one page. Needs neither a browser nor the internet; the first call of a process starts
    vl-convert.
    """
    buffer = StringIO()
    with alt.theme.enable(NAME):
        chart.save(buffer, format="svg")
    svg = buffer.getvalue()
    # vl-convert numbers its ids through the life of the process; ours depend on the picture alone.
    ids = {name: str(place) for place, name in enumerate(dict.fromkeys(name for _, name in ID.findall(svg)))}
    svg = ID.sub(lambda found: found[1] + ids[found[2]], svg)
    prefix = "c" + hashlib.sha256(svg.encode()).hexdigest()[:12] + "-"
    svg = ID.sub(lambda found: found[1] + prefix + found[2], svg)
    # The font once for all, not at every word: that is a third of a heat map's bytes.
    font = f' font-family="{FONT}"'
    description = "" if chart.description is alt.Undefined else escape(str(chart.description))
    return svg.replace(font, "").replace("<svg", f'<svg role="img" aria-label="{description}"{font}', 1)
