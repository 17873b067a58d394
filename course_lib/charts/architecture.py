"""The map of the course: the Transformer (paper, figure 1), its surroundings, and the finished parts."""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

import altair as alt
import pandas as pd

from course_lib.charts.map_layout import ARROWS, BOXES, HEADINGS, HEIGHT, SIGNS, TIES, WAVES, Box
from course_lib.charts.marks import Canvas, captioned, tips
from course_lib.charts.theme import CATEGORIES, INK, QUIET_INK, WIDTH, Picture
from course_lib.curriculum import public_curriculum

BUILT, CURRENT, TO_COME = "built", "now", "to come"
WORDS = {BUILT: "built", CURRENT: "in this lesson", TO_COME: "still to come"}
FILLS = {BUILT: "#c6dbef", CURRENT: "#ffd8a8", TO_COME: "#ffffff"}
OPEN_FILLS = {BUILT: "#eef5fc", CURRENT: "#fff4e5", TO_COME: "#ffffff"}
STROKES = {BUILT: "#2171b5", CURRENT: CATEGORIES[1], TO_COME: "#818b98"}
DASHES_OF_STATE = {BUILT: [1, 0], CURRENT: [1, 0], TO_COME: [4, 3]}
THICKNESS = {BUILT: 1.2, CURRENT: 2.6, TO_COME: 1.0}


def architecture_map(
    built: Iterable[str] = (),
    *,
    current: str | Iterable[str] = (),
    title: str = "The Transformer: what you have built so far",
) -> Picture:
    """Draw the whole architecture, and fill the blocks that are built or belong to the current lesson.

    Each block is named after its exercise. `built` and `current` each take one name or several. Blocks in
    `current` are highlighted, even if they are also in `built`. Blocks in neither are only outlined. A
    tooltip describes a block and names the lesson that builds it. Raises ValueError for unknown names.
    """
    now = {current} if isinstance(current, str) else set(current)
    done = {built} if isinstance(built, str) else set(built)
    known = list(public_curriculum().blocks)
    if unknown := sorted((now | done) - set(known)):
        raise ValueError(
            f"built and current: expected names of exercises, got {unknown}. Known: {', '.join(known)}."
        )
    states = {name: CURRENT if name in now else BUILT if name in done else TO_COME for name in known}
    # A course may leave exercises out.
    boxes = [box for box in BOXES if box.name in states]
    open_boxes = [box for box in boxes if box.is_open]
    further = _further_boxes()
    closed_boxes = [box for box in boxes if not box.is_open] + further
    parts = sorted(closed_boxes, key=lambda box: states[box.name])
    canvas = Canvas(WIDTH, HEIGHT + 30 * math.ceil(len(further) / 4))
    layers = [
        *_boxes(canvas, open_boxes, states, corner=8),
        *canvas.arrows(ARROWS),
        *canvas.arrows(TIES, [2, 3]),
        *_boxes(canvas, parts, states, corner=4),
        *(_waves(canvas, states) if all(box.name in states for box in WAVES) else ()),
        canvas.texts(SIGNS),
        canvas.texts(HEADINGS, size=12, colour=INK, align="left", weight="bold"),
        *_key(canvas),
    ]
    count = sum(state == BUILT for state in states.values())
    progress = f"{count} of {len(states)} parts are built. Hover over a part to read what it does."
    details = [
        f"{words}: {', '.join(name for name, other in states.items() if other == state) or 'nothing'}."
        for state, words in WORDS.items()
    ]
    chart = alt.LayerChart(layer=layers, width=canvas.width, height=canvas.height)
    return captioned(chart, title, progress, f"{progress} {' '.join(details)}")


def _further_boxes() -> list[Box]:
    """Return boxes, placed below the drawing, for the exercises that have no box in the drawing."""
    drawn = {box.name for box in (*BOXES, *WAVES)}
    names = [name for name in public_curriculum().blocks if name not in drawn]
    return [
        Box(name, name, 2 + 175 * (number % 4), HEIGHT - 24 + 30 * (number // 4), 167, 24)
        for number, name in enumerate(names)
    ]


def _boxes(canvas: Canvas, boxes: Sequence[Box], states: dict[str, str], *, corner: int) -> list[alt.Chart]:
    """Draw boxes and their labels, later ones on top. Consecutive boxes of one kind and state share a layer.

    `states` maps the name of a box to its state.
    """
    about = public_curriculum().blocks
    fields = ("name:N", "part"), ("does:N", "what it does"), ("lesson:N", "lesson"), ("state:N", "state")
    layers = []
    for (state, is_open), alike in groupby(boxes, key=lambda box: (states[box.name], box.is_open)):
        fills = OPEN_FILLS if is_open else FILLS
        table = pd.DataFrame(
            {
                "name": box.name,
                "label": box.label,
                "left": box.x,
                "right": box.x + box.width,
                "top": box.y,
                "bottom": box.y + box.height,
                "text x": box.x + 8 if is_open else box.x + box.width / 2,
                "text y": box.y + 13 if is_open else box.y + box.height / 2 - 6 * box.label.count("\n"),
                "state": state,
                "lesson": about[box.name][0].name,
                "does": about[box.name][1].does,
            }
            for box in alike
        )
        base = alt.Chart(table).encode(tooltip=tips(*fields))
        text = base.mark_text(
            align="left" if is_open else "center",
            fontSize=11,
            color=QUIET_INK if state == TO_COME else INK,
            lineBreak="\n",
            lineHeight=12,
            aria=False,
        )
        layers += [
            _rectangles(canvas, base, state, fills[state], corner),
            text.encode(x=canvas.x("text x"), y=canvas.y("text y"), text="label:N"),
        ]
    return layers


def _rectangles(canvas: Canvas, base: alt.Chart, state: str, fill: str, corner: int) -> alt.Chart:
    """Draw the rectangles in the data of `base` with the edge and dashes of a state."""
    return base.mark_rect(
        cornerRadius=corner,
        fill=fill,
        stroke=STROKES[state],
        strokeWidth=THICKNESS[state],
        strokeDash=DASHES_OF_STATE[state],
    ).encode(x=canvas.x("left"), x2="right:Q", y=canvas.y("top"), y2="bottom:Q")


def _waves(canvas: Canvas, states: dict[str, str]) -> list[alt.Chart]:
    """Draw each box of the sinusoids as a wave in a circle, as in the paper's figure."""
    curve = pd.DataFrame(
        {
            "path": number,
            "x": box.x + 4 + (box.width - 8) * point / 20,
            "y": box.y + box.height / 2 - 6 * math.sin(2 * math.pi * point / 20),
        }
        for number, box in enumerate(WAVES)
        for point in range(21)
    )
    ink = QUIET_INK if states["sinusoids"] == TO_COME else INK
    wave = alt.Chart(curve).mark_line(color=ink, strokeWidth=1.4, aria=False)
    return [
        *_boxes(canvas, WAVES, states, corner=12),
        wave.encode(x=canvas.x("x"), y=canvas.y("y"), detail="path:N"),
    ]


def _key(canvas: Canvas) -> list[alt.Chart]:
    """Draw the legend, which explains the three styles of a box."""
    layers, bottom = [], canvas.height
    for number, (state, words) in enumerate(WORDS.items()):
        left = 2 + 130 * number
        sample = pd.DataFrame([{"left": left, "right": left + 24, "top": bottom - 19, "bottom": bottom - 4}])
        layers += [
            _rectangles(canvas, alt.Chart(sample), state, FILLS[state], corner=4),
            canvas.texts([(left + 32, bottom - 11, words)], size=12, colour=INK, align="left"),
        ]
    return layers
