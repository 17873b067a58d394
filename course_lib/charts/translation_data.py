"""The charts of lesson 10: subwords, sentence lengths, padding and batches."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import altair as alt
import pandas as pd

from course_lib.charts.inputs import check_count, check_index
from course_lib.charts.marks import Cell, Grid, captioned, fixed_x, index_y, note, tips
from course_lib.charts.theme import (
    ALARM_FILL,
    ALARM_INK,
    CATEGORIES,
    INK,
    MASKED_FILL,
    MASKED_INK,
    MONOSPACE,
    QUIET_INK,
    WIDTH,
    Picture,
)

Spelling: TypeAlias = Sequence[Sequence[str]]
"""The symbols of each word."""

STEP = "merges_done"
"""The name of the slider's parameter."""

NEW, JOINED, LETTER = "made by the last merge", "made by an earlier merge", "a character"
STYLES = {NEW: (ALARM_FILL, ALARM_INK), JOINED: ("#c6dbef", "#2171b5"), LETTER: ("#ffffff", QUIET_INK)}
"""The fill and the edge of a symbol."""


def merge_steps(
    words: Sequence[str],
    spellings: Sequence[Spelling],
    merges: Sequence[tuple[str, str]],
    *,
    start: int = 0,
) -> Picture:
    """Draw words as boxes, one for each symbol, with a slider for the number of merges.

    `words` name the rows. `spellings` holds the symbols of each word before the first merge and after each
    merge; `merges` holds the merged pairs, one fewer than there are spellings. `start` is the slider's
    initial value. Raises ValueError if there are no merges or `start` is out of range.
    """
    if not merges:
        raise ValueError("merges: expected at least one, got none.")
    check_index(start, len(spellings), "start", "a step")

    now = f"datum.step === {STEP}"
    made = ["".join(pair) for pair in merges]
    symbols = alt.Chart(_symbols(spellings, made)).transform_filter(now)
    letters, row_height = max(map(len, words)), 30
    boxes = _boxes(symbols, len(words), letters, row_height - 6, 14)
    names = (
        alt.Chart(pd.DataFrame({"row": range(len(words)), "word": words}))
        .mark_text(align="right", color=QUIET_INK, dx=-8)
        .encode(x=alt.value(0), y="row:O", text="word:N")
    )
    status = pd.DataFrame(
        {
            "step": range(len(spellings)),
            "pair": ["no merge yet", *(f"merge {n}: {a} + {b}" for n, (a, b) in enumerate(merges, 1))],
            "details": [f"{sum(map(len, spelling))} symbols, repetitions included" for spelling in spellings],
        }
    )
    # Keep these lines short: the layout is computed for the slider's initial value, so it has no room for a
    # line that becomes longer later.
    line = alt.Chart(status).transform_filter(now).encode(x=alt.value(0))
    height = row_height * len(words)
    pair = line.mark_text(align="left", fontWeight="bold", fontSize=13).encode(
        y=alt.value(height + 16), text="pair:N"
    )
    details = line.mark_text(align="left", color=QUIET_INK).encode(y=alt.value(height + 34), text="details:N")
    handle = alt.binding_range(min=0, max=len(merges), step=1, name="Number of merges: ")
    at_the_end = "; ".join(f"{word}: {' '.join(row)}" for word, row in zip(words, spellings[-1], strict=True))
    subtitle = "Drag the slider below. Orange: made by the last merge. Blue: made by an earlier one."
    width = min(26, (WIDTH - 110) // letters) * letters
    chart = alt.LayerChart(layer=[*boxes, names, pair, details], width=width, height=height)
    return captioned(
        chart.add_params(alt.param(name=STEP, value=start, bind=handle)),
        "Merge by merge: characters grow into subwords",
        subtitle,
        f"The merges create, in this order: {', '.join(made)}. At the end: {at_the_end}.",
    )


def _symbols(spellings: Sequence[Spelling], made: Sequence[str]) -> pd.DataFrame:
    """Return one table row for each symbol of each spelling. `made` holds the new symbol of each merge."""
    table = pd.DataFrame(
        [
            (step, row, symbol, NEW if symbol == newest else JOINED if len(symbol) > 1 else LETTER)
            for step, (spelling, newest) in enumerate(zip(spellings, ["", *made], strict=True))
            for row, symbols in enumerate(spelling)
            for symbol in symbols
        ],
        columns=["step", "row", "symbol", "kind"],
    )
    lengths = table["symbol"].str.len()
    ends = lengths.groupby([table["step"], table["row"]]).cumsum()
    table["from"], table["to"] = ends - lengths + 0.04, ends - 0.04
    table["shown"] = table["symbol"]
    table[["fill", "stroke"]] = table["kind"].map(STYLES).tolist()
    return table


def _boxes(base: alt.Chart, rows: int, letters: float, height: int, font_size: int) -> list[alt.Chart]:
    """Draw the symbols in the data of `base` as boxes, in `rows` rows with room for `letters` letters."""
    base = base.encode(
        y=index_y("row", rows),
        tooltip=tips(("symbol:N", "symbol"), ("kind:N", "it is")),
    )
    box = base.mark_rect(cornerRadius=4, height=height, strokeWidth=1.3, aria=False).encode(
        x=fixed_x("from", 0, letters),
        x2="to:Q",
        fill=alt.Fill("fill:N", scale=None),
        stroke=alt.Stroke("stroke:N", scale=None),
    )
    text = (
        base.transform_calculate(middle="(datum.from + datum.to) / 2")
        .mark_text(font=MONOSPACE, fontSize=font_size, color=INK)
        .encode(x=fixed_x("middle", 0, letters), text="shown:N")
    )
    return [box, text]


def sentence_pieces(
    cuts: Mapping[str, Sequence[Sequence[str]]],
    *,
    unknown: Collection[str] = (),
) -> Picture:
    """Draw one row for each way to tokenise a sentence, with gaps between words but not between tokens.

    `cuts` maps the name of a tokenisation to the sentence: a list of words, each a list of tokens. Tokens in
    `unknown` are orange, with a question mark. Raises ValueError if there is no token.
    """
    boxes: list[dict[str, object]] = []
    for row, words in enumerate(cuts.values()):
        start = 0.0
        for word in words:
            for piece in word:
                missing = piece in unknown
                width = max(len(piece), 1) + 0.9 + (1.2 if missing else 0)
                boxes.append(
                    {
                        "row": row,
                        "symbol": piece,
                        "shown": f"{piece} ?" if missing else piece,
                        "kind": "not in the vocabulary" if missing else f"part of {''.join(word)}",
                        "from": start,
                        "to": start + width,
                        "fill": ALARM_FILL if missing else "#eef5fc",
                        "stroke": ALARM_INK if missing else "#2171b5",
                    }
                )
                start += width
            start += 0.8
    if not boxes:
        raise ValueError("cuts: expected sentences with at least one token, got none.")
    table = pd.DataFrame(boxes)
    longest = float(table["to"].max())
    letter, row_height = min(9.0, (WIDTH - 96) / longest), 34
    symbols = _boxes(
        alt.Chart(table), len(cuts), longest, row_height - 10, min(13, max(6, int(letter * 1.6)))
    )
    names = pd.DataFrame({"row": range(len(cuts)), "name": list(cuts)})
    names["details"] = [f"{sum(map(len, words))} tokens" for words in cuts.values()]
    label = alt.Chart(names).encode(y="row:O", x=alt.value(0))
    name = label.mark_text(align="right", dx=-8, dy=-7, fontWeight="bold").encode(text="name:N")
    count = label.mark_text(align="right", dx=-8, dy=8, fontSize=11, color=QUIET_INK).encode(text="details:N")
    subtitle = "Boxes that touch belong to one word."
    if unknown and table["symbol"].isin(list(unknown)).any():
        subtitle += " Orange, with a question mark: not in the vocabulary."
    details = "; ".join(
        f"{name}: {' '.join('+'.join(word) for word in words)}" for name, words in cuts.items()
    )
    height = row_height * len(cuts)
    chart = alt.LayerChart(layer=[*symbols, name, count], width=letter * longest, height=height)
    return captioned(chart, "One sentence, tokenised in several ways", subtitle, f"{details}.")


def length_histograms(lengths: Mapping[str, Sequence[int]]) -> Picture:
    """Draw histograms of sentence lengths, one below the other, each with the mean and the maximum.

    `lengths` maps each of at most six names to a list of sentence lengths. Raises ValueError for more names.
    """
    check_count(len(lengths), 6, "lengths", "names")
    longest = max(max(numbers) for numbers in lengths.values())
    panels, details = [], []
    for number, (name, numbers) in enumerate(lengths.items()):
        summary = f"mean {pd.Series(numbers).mean():.1f}, longest {max(numbers)}"
        details.append(f"{name}: {summary}")
        last = number == len(lengths) - 1
        panels.append(_histogram(name, pd.Series(numbers), summary, longest, CATEGORIES[number], last))
    subtitle = "A bar for each length. The dashed line is the mean."
    return captioned(
        alt.vconcat(*panels, spacing=12),
        "How many tokens does a sentence have?",
        subtitle,
        f"{'; '.join(details)}.",
    )


def _histogram(
    name: str, lengths: pd.Series, summary: str, longest: int, colour: str, last: bool
) -> alt.LayerChart:
    width = WIDTH - 220  # The name and the summary are next to the bars, so that they can't cover them.
    axis = alt.Axis(title="tokens in a sentence" if last else None, labels=last, ticks=last, grid=False)
    x = fixed_x("length", 0, longest + 1, axis)
    counts = lengths.value_counts().rename_axis("length").reset_index(name="sentences")
    bars = (
        alt.Chart(counts)
        .mark_bar(color=colour, opacity=0.75, width=max(1.0, 0.8 * width / (longest + 1)))
        .encode(
            x=x,
            y=alt.Y("sentences:Q", axis=alt.Axis(title="sentences", tickCount=2, format="~s", grid=False)),
            tooltip=tips(("length:Q", "tokens"), ("sentences:Q", "sentences", ",")),
        )
    )
    mean = alt.Chart(pd.DataFrame({"length": [float(lengths.mean())]})).mark_rule(
        strokeDash=[5, 3], strokeWidth=2, color=ALARM_INK
    )
    names = note(name, width + 10, 30, bold=True), note(summary, width + 10, 47)
    return alt.LayerChart(layer=[bars, mean.encode(x=x), *names], width=width, height=74)


def batch_tables(tables: Mapping[str, Sequence[Sequence[str]]]) -> Picture:
    """Draw one table for each name, with a row for each sentence and a cell for each token.

    `tables` maps a name to rows of equal length. Cells that hold "<pad>" are grey with a cross; those that
    hold "<start>" or "<end>" are orange.
    """
    maximum = max(len(rows[0]) for rows in tables.values())
    size = max(4, min(78, WIDTH // maximum))
    written = size >= 34
    panels, details = [], []
    for name, rows in tables.items():
        tokens = [token for row in rows for token in row]
        details.append(
            f"{name}: {len(rows)} rows of {len(rows[0])} tokens, "
            f"{tokens.count('<pad>') / len(tokens):.0%} of them padding"
        )
        grid = Grid(
            [str(row) for row in range(len(rows))],
            [str(position) for position in range(len(rows[0]))],
            size,
            ("sentence", "position", "token"),
            row_height=24 if written else 9,
        )
        cells = [
            Cell(MASKED_FILL, "×" if written else "", token, ink=MASKED_INK)
            if token == "<pad>"
            else Cell(
                "#ffd8a8" if token in ("<start>", "<end>") else "#c6dbef",
                _cut(token, size) if written else "",
                token,
            )
            for token in tokens
        ]
        panels.append(grid.draw(cells, title=details[-1], row_labels=False, column_labels=False))
    subtitle = "Blue: words. Orange: start and end. Grey: padding."
    return captioned(
        alt.vconcat(*panels, spacing=26), "The tokens of a batch", subtitle, f"{'; '.join(details)}."
    )


def _cut(token: str, width: int) -> str:
    # Assume 6.9 pixels for a letter, which is its width in the widest fallback font.
    maximum = int(width / 6.9)
    return token if len(token) <= maximum else f"{token[: maximum - 1]}…"
