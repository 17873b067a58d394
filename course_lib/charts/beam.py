"""Beam search as a tree: the beginnings that were kept at each step, and what became of them."""

import math
from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from course_lib.charts.colours import ALARM_FILL, ALARM_INK, EQUAL_FILL, INK, LINE, QUIET_INK
from course_lib.charts.theme import WIDTH, Picture

STEP_ROOM, ROW, BOX = 60, 40, 24
"""Pixels: what the steps' names take on the left, from one step to the next, and the height of a box."""
LARGEST_BOX, MOST_PLACES = 150, 8
FATES = {
    "winner": "part of the sentence that was handed back",
    "went on": "was continued",
    "ended": "ended here",
    "dropped": "was dropped",
}


def beam_tree(
    beginnings: Mapping[Sequence[str], float],
    winner: Sequence[str],
    *,
    end: str = "</s>",
    title: str = "Which beginnings were kept, and what became of them?",
) -> Picture:
    """One row a step and one box for each beginning that was kept, the likeliest on the left.

    `beginnings` gives for each of them, written as its words, its log-probability; lines lead from a
    beginning to those that go on from it. `winner` is the sentence that was handed back; `end` is the word
    that ends one. Raises ValueError where a beginning's own beginning is missing, a log-probability is not a
    number up to 0, a step has more than 8 beginnings, or the winner is none of them.
    """
    totals = {tuple(words): float(total) for words, total in beginnings.items() if len(words)}
    best = tuple(winner)
    _check(totals, best)
    nodes = _nodes(totals, best, end)
    places = int(nodes["place"].max()) + 1
    pitch = (WIDTH - STEP_ROOM) / max(places, 3)
    half = min(LARGEST_BOX, pitch - 12) / pitch / 2
    nodes = nodes.assign(
        left=nodes["place"] - half,
        right=nodes["place"] + half,
        top=nodes["step"] - BOX / ROW / 2,
        bottom=nodes["step"] + BOX / ROW / 2,
    )
    lost = int((nodes["fate"] == "dropped").sum())
    return alt.LayerChart(
        layer=_layers(nodes, _links(nodes), max(places, 3)),
        width=WIDTH - STEP_ROOM,
        height=ROW * int(nodes["step"].max()) + ROW // 2,
        title=alt.Title(
            title,
            subtitle=[
                "A box: the newest word of a beginning, and the log-probability of all its words.",
                "Framed: the sentence that was handed back. Grey, with a cross: dropped.",
            ],
        ),
        description=f"{title} Handed back: {' '.join(best)}, with a log-probability of {totals[best]:.2f}. "
        f"{len(nodes)} beginnings in {nodes['step'].max()} steps, of which {lost} were dropped.",
    )


def _check(totals: Mapping[tuple[str, ...], float], best: tuple[str, ...]) -> None:
    if best not in totals:
        raise ValueError(f"winner: expected one of the beginnings, got {' '.join(best)!r}.")
    for words, total in totals.items():
        if len(words) > 1 and words[:-1] not in totals:
            raise ValueError(
                f"beginnings: {' '.join(words)!r} goes on from {' '.join(words[:-1])!r}, which is missing. "
                "Give every beginning that was kept."
            )
        if not -math.inf < total <= 0:
            raise ValueError(
                f"beginnings: expected log-probabilities, finite and 0 at most, got {total} for "
                f"{' '.join(words)!r}."
            )
    steps = [len(words) for words in totals]
    if (most := max(steps.count(step) for step in steps)) > MOST_PLACES:
        raise ValueError(
            f"beginnings: expected {MOST_PLACES} in a step at most, got {most}. Narrow the beam."
        )


def _nodes(totals: Mapping[tuple[str, ...], float], best: tuple[str, ...], end: str) -> pd.DataFrame:
    continued = {words[:-1] for words in totals}
    rows = []
    for step in sorted({len(words) for words in totals}):
        kept = sorted((words for words in totals if len(words) == step), key=lambda words: -totals[words])
        for place, words in enumerate(kept):
            fate = "ended" if words[-1] == end else "went on" if words in continued else "dropped"
            if best[:step] == words:
                fate = "winner"
            rows.append(
                {
                    "words": words,
                    "step": step,
                    "place": place,
                    "word": words[-1],
                    "total": totals[words],
                    "written": f"{words[-1]}  {totals[words]:.2f}{' ×' * (fate == 'dropped')}".replace(
                        "-", "−"
                    ),
                    "beginning": " ".join(words),
                    "fate": fate,
                    "what became of it": FATES[fate],
                }
            )
    return pd.DataFrame(rows)


def _links(nodes: pd.DataFrame) -> pd.DataFrame:
    at = {node["words"]: node for node in nodes.to_dict("records")}
    links = [
        {
            "x": at[words[:-1]]["place"],
            "y": at[words[:-1]]["bottom"],
            "x2": node["place"],
            "y2": node["top"],
            "fate": node["fate"],
        }
        for words, node in at.items()
        if len(words) > 1
    ]
    return pd.DataFrame(links, columns=["x", "y", "x2", "y2", "fate"])


def _layers(nodes: pd.DataFrame, links: pd.DataFrame, places: int) -> list[alt.Chart]:
    across = alt.Scale(domain=[-0.5, places - 0.5], nice=False, zero=False)
    down = alt.Scale(domain=[0.5, float(nodes["step"].max()) + 0.5], nice=False, zero=False, reverse=True)
    steps = list(range(1, int(nodes["step"].max()) + 1))
    axis = alt.Axis(
        values=steps, labelExpr="'step ' + datum.value", grid=False, domain=False, ticks=False, labelPadding=8
    )
    is_winner = alt.datum.fate == "winner"
    is_dropped = alt.datum.fate == "dropped"
    lines = (
        alt.Chart(links)
        .mark_rule(aria=False)
        .encode(
            x=alt.X("x:Q", scale=across, axis=None),
            y=alt.Y("y:Q", scale=down, axis=axis, title=None),
            x2="x2:Q",
            y2="y2:Q",
            color=alt.condition(is_winner, alt.value(ALARM_INK), alt.value(QUIET_INK)),
            strokeWidth=alt.condition(is_winner, alt.value(2.5), alt.value(1)),
        )
    )
    base = alt.Chart(nodes.drop(columns="words"))
    boxes = base.mark_rect(cornerRadius=4).encode(
        x=alt.X("left:Q", scale=across, axis=None),
        x2="right:Q",
        y=alt.Y("top:Q", scale=down, axis=axis, title=None),
        y2="bottom:Q",
        fill=alt.condition(is_winner, alt.value(ALARM_FILL), alt.value(EQUAL_FILL)),
        stroke=alt.condition(is_winner, alt.value(ALARM_INK), alt.value(LINE)),
        strokeWidth=alt.condition(is_winner, alt.value(2), alt.value(1)),
        tooltip=[
            alt.Tooltip("beginning:N"),
            alt.Tooltip("total:Q", title="log-probability", format=".3f"),
            alt.Tooltip("what became of it:N"),
        ],
    )
    texts = base.mark_text(fontSize=12, aria=False).encode(
        x=alt.X("place:Q", scale=across, axis=None),
        y=alt.Y("step:Q", scale=down, axis=axis, title=None),
        text="written:N",
        color=alt.condition(is_dropped, alt.value(QUIET_INK), alt.value(INK)),
    )
    return [lines, boxes, texts]
