"""The map of the course: the Transformer (paper, figure 1), what surrounds it, and what is built so far."""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby, pairwise
from typing import Literal, TypeAlias

import altair as alt
import pandas as pd

from course_lib.charts.colours import CATEGORIES, INK, QUIET_INK
from course_lib.charts.drawing import ARROWS, BOXES, HEADINGS, HEIGHT, SIGNS, TIES, WAVES, Box, Path
from course_lib.charts.theme import WIDTH, Picture
from course_lib.curriculum import public_curriculum

BUILT, CURRENT, TO_COME = "built", "now", "to come"
WORDS = {BUILT: "built", CURRENT: "in this lesson", TO_COME: "still to come"}
FILLS = {BUILT: "#c6dbef", CURRENT: "#ffd8a8", TO_COME: "#ffffff"}
OPEN_FILLS = {BUILT: "#eef5fc", CURRENT: "#fff4e5", TO_COME: "#ffffff"}
STROKES = {BUILT: "#2171b5", CURRENT: CATEGORIES[1], TO_COME: "#818b98"}
DASHES = {BUILT: [1, 0], CURRENT: [1, 0], TO_COME: [4, 3]}
THICKNESS = {BUILT: 1.2, CURRENT: 2.6, TO_COME: 1.0}

Align: TypeAlias = Literal["left", "center"]
Weight: TypeAlias = Literal["normal", "bold"]


def architecture_map(
    built: Iterable[str] = (),
    *,
    current: str | Iterable[str] = (),
    title: str = "The Transformer: what you have built so far",
) -> Picture:
    """The whole architecture: blocks named in `built` filled, `current` highlighted, the rest outlined.

    Names are those of the exercises, from `attention_scores` to `global_token_mean`; `current` is one or
    several. A tooltip says what a block does and which lesson builds it. Raises ValueError for unknown
    names.
    """
    now = {current} if isinstance(current, str) else set(current)
    done = {built} if isinstance(built, str) else set(built)
    known = list(public_curriculum().blocks)
    unknown = sorted((now | done) - set(known))
    if unknown:
        raise ValueError(
            f"built and current: expected names of exercises, got {unknown}. Known: {', '.join(known)}."
        )
    states = {name: CURRENT if name in now else BUILT if name in done else TO_COME for name in known}
    holders = [box for box in BOXES if box.is_open]
    parts = sorted(
        (*(box for box in BOXES if not box.is_open), *_further_boxes()), key=lambda box: states[box.name]
    )
    layers = [
        *_boxes(holders, states, OPEN_FILLS, corner=8, align="left"),
        *_arrows(ARROWS, []),
        *_arrows(TIES, [2, 3]),
        *_boxes(parts, states, FILLS, corner=4, align="center"),
        *_waves(states),
        _texts(SIGNS, 11, QUIET_INK, align="center"),
        _texts(HEADINGS, 12, INK, align="left", weight="bold"),
        *_key(),
    ]
    return alt.LayerChart(
        layer=layers,
        width=WIDTH,
        height=_height(),
        title=alt.Title(title, subtitle=_progress(states)),
        description=f"{title}. {_progress(states)} {_told(states)}",
    )


@cache
def _further_boxes() -> tuple[Box, ...]:
    """Boxes below the drawing for the exercises that have no place in it."""
    drawn = {box.name for box in (*BOXES, *WAVES)}
    names = [name for name in public_curriculum().blocks if name not in drawn]
    return tuple(
        Box(name, name, 2 + 175 * (number % 4), HEIGHT - 24 + 30 * (number // 4), 167, 24)
        for number, name in enumerate(names)
    )


def _height() -> int:
    return HEIGHT + 30 * math.ceil(len(_further_boxes()) / 4)


def _progress(states: dict[str, str]) -> str:
    count = sum(state == BUILT for state in states.values())
    return f"{count} of {len(states)} parts are built. Point at a part to read what it does."


def _told(states: dict[str, str]) -> str:
    """The map in words."""
    names = {state: [name for name, other in states.items() if other == state] for state in WORDS}
    return " ".join(f"{words}: {', '.join(names[state]) or 'nothing'}." for state, words in WORDS.items())


def _across(field: str) -> alt.X:
    return alt.X(f"{field}:Q", axis=None, scale=alt.Scale(domain=[0, WIDTH], nice=False, zero=False))


def _down(field: str) -> alt.Y:
    return alt.Y(f"{field}:Q", axis=None, scale=alt.Scale(domain=[_height(), 0], nice=False, zero=False))


def _rows(boxes: Iterable[Box], states: dict[str, str]) -> pd.DataFrame:
    """One table row a box: where it lies, what stands in it and what its tooltip says."""
    blocks = public_curriculum().blocks
    return pd.DataFrame(
        {
            "name": box.name,
            "label": box.label,
            "left": box.x,
            "right": box.x + box.width,
            "top": box.y,
            "bottom": box.y + box.height,
            "text x": box.x + 8 if box.is_open else box.x + box.width / 2,
            "text y": box.y + 13 if box.is_open else box.y + box.height / 2 - 6 * box.label.count("\n"),
            "state": states[box.name],
            "lesson": blocks[box.name][0].name,
            "does": blocks[box.name][1].does,
        }
        for box in boxes
    )


def _boxes(
    boxes: Sequence[Box], states: dict[str, str], fills: dict[str, str], corner: int, align: Align
) -> list[alt.Chart]:
    """The boxes and their labels, later ones above earlier ones; neighbours of one state share a layer."""
    layers = []
    for state, alike in groupby(boxes, key=lambda box: states[box.name]):
        base = alt.Chart(_rows(alike, states)).encode(
            tooltip=[
                alt.Tooltip("name:N", title="part"),
                alt.Tooltip("does:N", title="what it does"),
                alt.Tooltip("lesson:N", title="lesson"),
                alt.Tooltip("state:N", title="state"),
            ]
        )
        text = base.mark_text(
            align=align,
            fontSize=11,
            fontWeight="bold" if state == CURRENT else "normal",
            color=QUIET_INK if state == TO_COME else INK,
            lineBreak="\n",
            lineHeight=12,
            aria=False,
        )
        layers += [
            _drawn(base, state, fills, corner),
            text.encode(x=_across("text x"), y=_down("text y"), text="label:N"),
        ]
    return layers


def _drawn(base: alt.Chart, state: str, fills: dict[str, str], corner: int) -> alt.Chart:
    """Rectangles whose fill, edge and dashes say how far the block is."""
    return base.mark_rect(
        cornerRadius=corner,
        fill=fills[state],
        stroke=STROKES[state],
        strokeWidth=THICKNESS[state],
        strokeDash=DASHES[state],
    ).encode(x=_across("left"), x2="right:Q", y=_down("top"), y2="bottom:Q")


def _arrows(paths: Sequence[Path], dash: list[int]) -> list[alt.Chart]:
    """Lines along their corners, with a head at the end of those that point somewhere."""
    corners = pd.DataFrame(
        {"path": number, "place": place, "x": x, "y": y}
        for number, path in enumerate(paths)
        for place, (x, y) in enumerate(path.corners)
    )
    line = (
        alt.Chart(corners)
        .mark_line(
            color=QUIET_INK, strokeWidth=1.1, strokeDash=dash or alt.Undefined, strokeJoin="round", aria=False
        )
        .encode(x=_across("x"), y=_down("y"), detail="path:N", order="place:Q")
    )
    heads = pd.DataFrame(_head(path) for path in paths if path.points)
    if heads.empty:
        return [line]
    head = (
        alt.Chart(heads)
        .mark_point(filled=True, color=QUIET_INK, size=34, opacity=1, shape="triangle-up", aria=False)
        .encode(x=_across("x"), y=_down("y"), angle=alt.Angle("angle:Q", scale=None))
    )
    return [line, head]


def _head(path: Path) -> dict[str, float]:
    """The arrow's head: its middle a little before the end, turned the way the last piece goes."""
    (from_x, from_y), (to_x, to_y) = list(pairwise(path.corners))[-1]
    length = math.hypot(to_x - from_x, to_y - from_y)
    along_x, along_y = (to_x - from_x) / length, (to_y - from_y) / length
    return {
        "x": to_x - 3 * along_x,
        "y": to_y - 3 * along_y,
        "angle": math.degrees(math.atan2(along_x, -along_y)),
    }


def _waves(states: dict[str, str]) -> list[alt.Chart]:
    """The sinusoids: a wave in a circle, as in the paper's figure."""
    curve = pd.DataFrame(
        {
            "path": number,
            "x": box.x + 4 + (box.width - 8) * place / 20,
            "y": box.y + box.height / 2 - 6 * math.sin(2 * math.pi * place / 20),
        }
        for number, box in enumerate(WAVES)
        for place in range(21)
    )
    ink = QUIET_INK if states["sinusoids"] == TO_COME else INK
    wave = alt.Chart(curve).mark_line(color=ink, strokeWidth=1.4, aria=False)
    return [
        *_boxes(WAVES, states, FILLS, corner=12, align="center"),
        wave.encode(x=_across("x"), y=_down("y"), detail="path:N"),
    ]


def _texts(
    signs: Sequence[tuple[float, float, str]], size: int, colour: str, align: Align, weight: Weight = "normal"
) -> alt.Chart:
    return (
        alt.Chart(pd.DataFrame(signs, columns=["x", "y", "text"]))
        .mark_text(fontSize=size, color=colour, fontWeight=weight, align=align)
        .encode(x=_across("x"), y=_down("y"), text="text:N")
    )


def _key() -> list[alt.Chart]:
    """What the three looks of a box mean."""
    layers = []
    for place, (state, words) in enumerate(WORDS.items()):
        left = 2 + 130 * place
        sample = pd.DataFrame(
            [{"left": left, "right": left + 24, "top": _height() - 19, "bottom": _height() - 4}]
        )
        layers += [
            _drawn(alt.Chart(sample), state, FILLS, corner=4),
            _texts([(left + 32, _height() - 11, words)], 12, INK, align="left"),
        ]
    return layers
