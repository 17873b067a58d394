"""One sentence cut in several ways: the pieces of a word stand together, words stand apart."""

from collections.abc import Collection, Mapping, Sequence

import altair as alt
import pandas as pd

from course_lib.charts.colours import ALARM_FILL, ALARM_INK, INK, QUIET_INK
from course_lib.charts.theme import MONOSPACE, WIDTH, Picture

ROW, GAP, ROOM, LARGEST_LETTER = 34, 0.8, 96, 9.0
"""Pixels of a row; letters between two words; pixels for the rows' names; pixels of a letter at most."""

PLAIN = ("#eef5fc", "#2171b5")


def sentence_pieces(
    cuts: Mapping[str, Sequence[Sequence[str]]],
    *,
    unknown: Collection[str] = (),
    title: str = "One sentence, cut in several ways",
) -> Picture:
    """One row for each way to cut a sentence: words stand apart, the pieces of a word side by side.

    `cuts` maps a name to the words, each a list of its pieces. Pieces in `unknown` are marked with colour, a
    dashed frame and a question mark. Raises ValueError for no cut, or one without a piece.
    """
    if not cuts or not all(any(map(len, words)) for words in cuts.values()):
        raise ValueError(f"cuts: expected sentences with at least one piece, got {dict(cuts)}.")
    table = pd.DataFrame(
        box for row, words in enumerate(cuts.values()) for box in _boxes(row, words, set(unknown))
    )
    counts = [sum(map(len, words)) for words in cuts.values()]
    names = pd.DataFrame({"row": range(len(cuts)), "name": list(cuts), "count": counts})
    names["told"] = names["count"].astype(str) + " tokens"
    subtitle = "Boxes that touch belong to one word."
    if table["known"].eq("unknown").any():
        subtitle += " Dashed, with a question mark: not in the vocabulary."
    told = "; ".join(f"{name}: {_told(words)}" for name, words in cuts.items())
    return _drawn(table, names).properties(
        title=alt.Title(title, subtitle=subtitle), description=f"{title}. {told}."
    )


def _boxes(row: int, words: Sequence[Sequence[str]], unknown: set[str]) -> list[dict[str, object]]:
    """One table row for each piece: where it stands, in letters from the left, and how it looks."""
    boxes: list[dict[str, object]] = []
    place = 0.0
    for word in words:
        for piece in word:
            missing = piece in unknown
            room = max(len(piece), 1) + 0.9 + (1.2 if missing else 0)
            boxes.append(
                {
                    "row": row,
                    "piece": piece,
                    "shown": f"{piece} ?" if missing else piece,
                    "word": "".join(word),
                    "known": "unknown" if missing else "known",
                    "from": place,
                    "to": place + room,
                    "middle": place + room / 2,
                    "fill": ALARM_FILL if missing else PLAIN[0],
                    "stroke": ALARM_INK if missing else PLAIN[1],
                }
            )
            place += room
        place += GAP
    return boxes


def _told(words: Sequence[Sequence[str]]) -> str:
    return " ".join("+".join(word) for word in words)


def _drawn(table: pd.DataFrame, names: pd.DataFrame) -> alt.LayerChart:
    longest = float(table["to"].max())
    letter = min(LARGEST_LETTER, (WIDTH - ROOM) / longest)
    across = alt.Scale(domain=[0, longest], nice=False)
    base = alt.Chart(table).encode(
        y=alt.Y("row:O", axis=None),
        tooltip=[
            alt.Tooltip("piece:N"),
            alt.Tooltip("word:N", title="of the word"),
            alt.Tooltip("known:N", title="vocabulary"),
        ],
    )
    boxes = [
        base.transform_filter(alt.datum.known == known)
        .mark_rect(height=ROW - 10, strokeWidth=1.4, strokeDash=dash, aria=False)
        .encode(
            x=alt.X("from:Q", axis=None, scale=across),
            x2="to:Q",
            fill=alt.Fill("fill:N", scale=None),
            stroke=alt.Stroke("stroke:N", scale=None),
        )
        for known, dash in {"known": [1, 0], "unknown": [4, 3]}.items()
    ]
    pieces = base.mark_text(font=MONOSPACE, fontSize=min(13, max(6, int(letter * 1.6))), color=INK).encode(
        x=alt.X("middle:Q", axis=None, scale=across), text="shown:N"
    )
    row = alt.Chart(names).encode(y="row:O", x=alt.value(0))
    name = row.mark_text(align="right", dx=-8, dy=-7, fontWeight="bold").encode(text="name:N")
    count = row.mark_text(align="right", dx=-8, dy=8, fontSize=11, color=QUIET_INK).encode(text="told:N")
    return alt.LayerChart(
        layer=[*boxes, pieces, name, count], width=letter * longest, height=ROW * len(names)
    )
