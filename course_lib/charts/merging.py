"""Byte-pair encoding step by step: words as rows of symbols, which a slider joins one merge at a time."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from course_lib.charts.colours import ALARM_FILL, ALARM_INK, INK, QUIET_INK
from course_lib.charts.theme import MONOSPACE, WIDTH, Picture

STEP = "merges_done"
ROW, LARGEST_CELL, ROOM = 30, 26, 110
"""Pixels: the height of a word, the width of a letter at most, and what the names of the rows take."""

Spelling = Sequence[Sequence[str]]
"""The symbols of each word."""

FILLS = {"letter": "#ffffff", "joined": "#c6dbef", "new": ALARM_FILL}
STROKES = {"letter": QUIET_INK, "joined": "#2171b5", "new": ALARM_INK}


def merge_steps(
    words: Sequence[str],
    spellings: Sequence[Spelling],
    merges: Sequence[tuple[str, str]],
    *,
    start: int = 0,
    title: str = "Merge by merge: characters grow into subwords",
) -> Picture:
    """Words as boxes, a box for each symbol, with a slider for the number of merges that are done.

    `words` name the rows. `spellings` holds, for no merge, one merge and so on, the symbols of each word;
    `merges` are the pairs, one fewer than spellings. `start` is where the slider stands first. What the last
    merge joined is orange, what was joined before is blue. Raises ValueError where the numbers of words,
    spellings and merges do not fit, the symbols of a word do not make it up, or `start` is no step.
    """
    _check(words, spellings, merges, start)
    table = pd.DataFrame(
        box for step, spelling in enumerate(spellings) for box in _boxes(step, spelling, merges)
    )
    pairs = ["no merge yet", *(f"merge {n}: {left} + {right}" for n, (left, right) in enumerate(merges, 1))]
    counts = [sum(map(len, spelling)) for spelling in spellings]
    said = pd.DataFrame(
        {"step": range(len(pairs)), "pair": pairs, "told": [f"{count} symbols in all" for count in counts]}
    )
    slider = alt.param(
        name=STEP,
        value=start,
        bind=alt.binding_range(min=0, max=len(merges), step=1, name="Merges done: "),
    )
    letters = max(map(len, words))
    width = min(LARGEST_CELL, (WIDTH - ROOM) // letters) * letters
    picture = _drawn(table, said, words, width, letters).add_params(slider)
    joined = ", ".join("".join(pair) for pair in merges)
    ends = "; ".join(f"{word}: {' '.join(row)}" for word, row in zip(words, spellings[-1], strict=True))
    return picture.properties(
        title=alt.Title(
            title, subtitle="Drag the slider below. Orange: joined just now. Blue: joined before."
        ),
        description=f"{title}. The merges make, in this order: {joined}. At the end: {ends}.",
    )


def _check(
    words: Sequence[str], spellings: Sequence[Spelling], merges: Sequence[tuple[str, str]], start: int
) -> None:
    if not words or not merges:
        raise ValueError(f"expected words and merges, got {len(words)} words and {len(merges)} merges.")
    if len(spellings) != len(merges) + 1:
        raise ValueError(
            f"spellings: expected {len(merges) + 1}, one before the first merge and one after each, "
            f"got {len(spellings)}."
        )
    for step, spelling in enumerate(spellings):
        if ["".join(symbols) for symbols in spelling] != list(words):
            raise ValueError(
                f"spellings[{step}]: expected symbols that make up {list(words)}, "
                f"got {[''.join(symbols) for symbols in spelling]}."
            )
    if not 0 <= start <= len(merges):
        raise ValueError(f"start: expected 0 to {len(merges)}, got {start}.")


def _boxes(step: int, spelling: Spelling, merges: Sequence[tuple[str, str]]) -> list[dict[str, object]]:
    """One table row for each symbol: where it begins and ends, and how it came to be."""
    newest = "".join(merges[step - 1]) if step else None
    boxes: list[dict[str, object]] = []
    for row, symbols in enumerate(spelling):
        place = 0
        for symbol in symbols:
            kind = "new" if symbol == newest else "joined" if len(symbol) > 1 else "letter"
            boxes.append(
                {
                    "step": step,
                    "row": row,
                    "symbol": symbol,
                    "from": place + 0.04,
                    "to": place + len(symbol) - 0.04,
                    "middle": place + len(symbol) / 2,
                    "kind": kind,
                    "fill": FILLS[kind],
                    "stroke": STROKES[kind],
                }
            )
            place += len(symbol)
    return boxes


def _drawn(
    table: pd.DataFrame, said: pd.DataFrame, words: Sequence[str], width: int, letters: int
) -> alt.LayerChart:
    height = ROW * len(words)
    across = alt.Scale(domain=[0, letters], nice=False)
    now = f"datum.step === {STEP}"
    base = (
        alt.Chart(table)
        .transform_filter(now)
        .encode(
            y=alt.Y("row:O", axis=None, scale=alt.Scale(domain=list(range(len(words))))),
            tooltip=[alt.Tooltip("symbol:N"), alt.Tooltip("kind:N", title="this symbol is")],
        )
    )
    boxes = base.mark_rect(cornerRadius=4, height=ROW - 6, strokeWidth=1.2, aria=False).encode(
        x=alt.X("from:Q", axis=None, scale=across),
        x2="to:Q",
        fill=alt.Fill("fill:N", scale=None),
        stroke=alt.Stroke("stroke:N", scale=None),
    )
    symbols = base.mark_text(font=MONOSPACE, fontSize=14, color=INK).encode(
        x=alt.X("middle:Q", axis=None, scale=across), text="symbol:N"
    )
    names = (
        alt.Chart(pd.DataFrame({"row": range(len(words)), "word": words}))
        .mark_text(align="right", color=QUIET_INK, dx=-8)
        .encode(x=alt.value(0), y="row:O", text="word:N")
    )
    # Short lines: the slider doesn't make room for longer ones.
    line = alt.Chart(said).transform_filter(now).encode(x=alt.value(0))
    pair = line.mark_text(align="left", fontWeight="bold", fontSize=13).encode(
        y=alt.value(height + 16), text="pair:N"
    )
    told = line.mark_text(align="left", color=QUIET_INK).encode(y=alt.value(height + 34), text="told:N")
    return alt.LayerChart(layer=[boxes, symbols, names, pair, told], width=width, height=height)
