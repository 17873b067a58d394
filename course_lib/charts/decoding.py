"""The charts of lesson 11: a translation word by word, and beam search as a tree."""

import math
from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from course_lib.charts.inputs import as_words, check_count
from course_lib.charts.marks import Cell, Grid, beside_rows, captioned, fixed_x, fixed_y, tips
from course_lib.charts.theme import (
    ALARM_FILL,
    ALARM_INK,
    AMOUNTS,
    CATEGORIES,
    EQUAL_FILL,
    INK,
    LINE,
    QUIET_INK,
    WIDTH,
    Picture,
    on_ramp,
)

ROOM, ROW, BOX = 60, 40, 24
"""Pixels: the width of the steps' names, the distance between two steps, and the height of a box."""

MAX_WIDTH, MAX_PREFIXES = 150, 8
"""The maximum width of a box in pixels, and the maximum number of prefixes in a step."""

END = "<end>"
"""The word that ends a sentence."""

FATES = {
    "winner": "part of the returned sentence",
    "continued": "was extended",
    "ended": "ends here",
    "waiting": "ended earlier, and is still in the beam",
    "dropped": "was dropped",
}


def word_by_word(
    candidates: Sequence[Mapping[str, float]], written: Sequence[str], attended: Sequence[tuple[str, float]]
) -> Picture:
    """Draw the likeliest words at each step of a translation, and the source word that is attended to most.

    `candidates` holds, for each step, at most five words with their probabilities, the likeliest first;
    `written` holds the word selected at each step, which is framed; `attended` holds a pair for each step:
    the source word with the largest attention weight, and this weight. Raises ValueError if the numbers of
    steps differ, or if a step has more than five words.
    """
    words = as_words(written, len(candidates), "written")
    count = max(map(len, candidates))
    check_count(count, 5, "candidates", "words at each step")
    columns = ["likeliest", "second", "third", "fourth", "fifth"][:count]
    rows = [f"{step}. {word}" for step, word in enumerate(words, start=1)]
    names = ("step", "rank", "candidate")
    grid = Grid(rows, columns, min(120, (WIDTH - 260) // count), names, row_height=26, frame=ALARM_INK)
    cells = []
    for word, ranked in zip(words, candidates, strict=True):
        for candidate, number in ranked.items():
            shown = f"{candidate} {number:.2f}"
            # Use only light shades, on which black text is easy to read.
            fill = on_ramp(AMOUNTS[:3], number)
            cells.append(Cell(fill, shown, f"{candidate}, {number:.4f}", framed=candidate == word))
        cells += [Cell("#ffffff")] * (count - len(ranked))
    looks = [f"{word} ({weight:.2f})" for word, weight in attended]
    beside = beside_rows(looks, 26, title="attends most to", width=130)
    details = [
        f"step {step}: {word} at {ranked.get(word, 0.0):.2f}, attending most to {look}"
        for step, (word, ranked, look) in enumerate(zip(words, candidates, looks, strict=True), start=1)
    ]
    subtitle = "A row is a step. Darker: more probable. A frame marks the word that is written."
    chart = alt.hconcat(grid.draw(cells), beside, spacing=14)
    return captioned(
        chart,
        "Word by word: what does the model consider, and where does it look?",
        subtitle,
        f"{'; '.join(details)}.",
    )


def beam_tree(
    prefixes: Mapping[Sequence[str], float],
    winner: Sequence[str],
    *,
    greedy: Sequence[str],
) -> Picture:
    """Draw the prefixes that the beam kept: a row for each step, with the most probable prefix on the left.

    `prefixes` maps each prefix, written as its words, to its log-probability; lines lead from a prefix to its
    extensions. The word "<end>" ends a sentence; a prefix in which it is repeated is a hypothesis that ended
    in an earlier step and stayed in the beam. `winner` is the sentence that the search returned, and `greedy`
    the sentence of greedy decoding, whose prefixes have a dashed frame if the beam kept them. Raises
    ValueError if a prefix is given without the prefix that it extends, a log-probability isn't finite or is
    above 0, a step has more than 8 prefixes, or `winner` isn't one of the prefixes.
    """
    totals = {tuple(words): float(total) for words, total in prefixes.items()}
    best = tuple(winner)
    _check(totals, best)
    nodes = _nodes(totals, best, tuple(greedy))
    steps = int(nodes["step"].max())
    columns = max(int(nodes["column"].max()) + 1, 3)
    pitch = (WIDTH - ROOM) / columns
    half = min(MAX_WIDTH, pitch - 12) / pitch / 2
    nodes["left"], nodes["right"] = nodes["column"] - half, nodes["column"] + half
    nodes["top"], nodes["bottom"] = nodes["step"] - BOX / ROW / 2, nodes["step"] + BOX / ROW / 2
    lines = [
        "Each box: the newest word of a prefix, and the log-probability of the whole prefix.",
        "Orange: the returned sentence. ×: dropped. ■: ended, at no further cost while it stays in the beam.",
    ]
    shared = int(nodes["greedy"].sum())
    whole = "to the end" if shared == len(greedy) else f"for {shared} of its {len(greedy)} words"
    lines.append(f"Dashed blue frame: the sentence of greedy decoding, which the beam kept {whole}.")
    dropped = int((nodes["fate"] == "dropped").sum())
    layers, height = _layers(nodes, columns, steps), ROW * steps + ROW // 2
    return captioned(
        alt.LayerChart(layer=layers, width=WIDTH - ROOM, height=height),
        "Which prefixes did the beam keep, and what became of them?",
        lines,
        f"Returned: {' '.join(best)}, with a log-probability of {totals[best]:.2f}. "
        f"{len(nodes)} prefixes in {steps} steps, of which {dropped} were dropped. "
        f"The beam kept the sentence of greedy decoding {whole}.",
    )


def _check(totals: Mapping[tuple[str, ...], float], best: tuple[str, ...]) -> None:
    if best not in totals:
        raise ValueError(f"winner: expected one of the prefixes, got {' '.join(best)!r}.")
    for words, total in totals.items():
        if len(words) > 1 and words[:-1] not in totals:
            raise ValueError(
                f"prefixes: {' '.join(words)!r} extends {' '.join(words[:-1])!r}, which is missing. "
                "Pass every prefix that was kept."
            )
        if not -math.inf < total <= 0:
            raise ValueError(
                f"prefixes: expected finite log-probabilities of at most 0, got {total} for "
                f"{' '.join(words)!r}."
            )
    lengths = [len(words) for words in totals]
    if (maximum := max(map(lengths.count, lengths))) > MAX_PREFIXES:
        raise ValueError(
            f"prefixes: expected at most {MAX_PREFIXES} in a step, got {maximum}. Use a smaller beam."
        )


def _nodes(
    totals: Mapping[tuple[str, ...], float], best: tuple[str, ...], greedy: tuple[str, ...]
) -> pd.DataFrame:
    """Return one table row for each prefix, sorted by step and by descending log-probability."""
    extended = {words[:-1] for words in totals}
    rows, step, column = [], 0, 0
    for words in sorted(totals, key=lambda words: (len(words), -totals[words])):
        column = column + 1 if len(words) == step else 0
        step = len(words)
        has_ended, waits = words[-1] == END, words[-2:] == (END, END)
        fate = "ended" if has_ended else "continued" if words in extended else "dropped"
        if waits:
            fate = "waiting"
        if (words[: len(best)] if waits else words) == best[:step]:
            fate = "winner"
        sign = " ■" if has_ended else " ×" if fate == "dropped" else ""
        rows.append(
            {
                "words": words,
                "step": step,
                "column": column,
                "shown": f"{'' if waits else words[-1]}  {totals[words]:.2f}{sign}".replace("-", "−"),
                "total": totals[words],
                "prefix": " ".join(words),
                "fate": fate,
                "details": FATES[fate],
                "greedy": greedy[:step] == words,
            }
        )
    return pd.DataFrame(rows)


def _layers(nodes: pd.DataFrame, columns: int, steps: int) -> list[alt.Chart]:
    axis = alt.Axis(
        title=None,
        values=list(range(1, steps + 1)),
        labelExpr="'step ' + datum.value",
        grid=False,
        domain=False,
        ticks=False,
        labelPadding=8,
    )

    def x(field: str) -> alt.X:
        return fixed_x(field, -0.5, columns - 0.5)

    def y(field: str) -> alt.Y:
        return fixed_y(field, steps + 0.5, 0.5, axis)

    at = {node["words"]: node for node in nodes.to_dict("records")}
    links = pd.DataFrame(
        [
            (at[words[:-1]]["column"], at[words[:-1]]["bottom"], node["column"], node["top"], node["fate"])
            for words, node in at.items()
            if len(words) > 1
        ],
        columns=["x", "y", "x2", "y2", "fate"],
    )
    is_winner, is_dropped = alt.datum.fate == "winner", alt.datum.fate == "dropped"
    lines = alt.Chart(links).mark_rule(aria=False)
    base = alt.Chart(nodes.drop(columns="words"))
    edges = {"x": x("left"), "x2": "right:Q", "y": y("top"), "y2": "bottom:Q"}
    frames = base.transform_filter("datum.greedy").mark_rect(
        filled=False, stroke=CATEGORIES[0], strokeWidth=2, strokeDash=[5, 3], cornerRadius=7, aria=False
    )
    return [
        lines.encode(
            x=x("x"),
            y=y("y"),
            x2="x2:Q",
            y2="y2:Q",
            color=alt.condition(is_winner, alt.value(ALARM_INK), alt.value(QUIET_INK)),
            strokeWidth=alt.condition(is_winner, alt.value(2.5), alt.value(1)),
        ),
        base.mark_rect(cornerRadius=4).encode(
            **edges,
            fill=alt.condition(is_winner, alt.value(ALARM_FILL), alt.value(EQUAL_FILL)),
            stroke=alt.condition(is_winner, alt.value(ALARM_INK), alt.value(LINE)),
            strokeWidth=alt.condition(is_winner, alt.value(2), alt.value(1)),
            tooltip=tips(
                ("prefix:N", "prefix"), ("total:Q", "log-probability", ".3f"), ("details:N", "state")
            ),
        ),
        # Draw the dashed frame slightly outside the box, so that it doesn't cover the winner's frame.
        frames.transform_calculate(
            left="datum.left - 0.025",
            right="datum.right + 0.025",
            top="datum.top - 0.09",
            bottom="datum.bottom + 0.09",
        ).encode(**edges),
        base.mark_text(aria=False).encode(
            x=x("column"),
            y=y("step"),
            text="shown:N",
            color=alt.condition(is_dropped, alt.value(QUIET_INK), alt.value(INK)),
        ),
    ]
