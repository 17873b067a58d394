"""The leak probe: one token is changed; which outputs move, and which of them should not have?"""

import math
from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from course_lib.charts.arrays import Floats, Numbers, as_words, from_tensor
from course_lib.charts.cells import Grid, Shades, cell_size, exact, short
from course_lib.charts.colours import ALARM_FILL, ALARM_INK, AMOUNTS, EQUAL_FILL, MASKED_INK
from course_lib.charts.theme import WIDTH, Picture

ROOM_BESIDE = 210
"""Pixels kept free for the names of the masks."""


def leak_probe(
    moved: Mapping[str, Numbers],
    words: Sequence[str],
    changed: int,
    *,
    title: str | None = None,
) -> Picture:
    """One row for each mask: how far the output at each position moved when token `changed` was changed.

    `moved` maps a mask's name to L distances, one for each of the L words; a position whose output is the
    same to the last bit has an exact 0. An output before the changed token that moved has seen the future: it
    is orange and carries a "!". The changed token's own column is named with an arrow. The default title
    counts the leaks. Raises ValueError where there is no mask, words do not fit, or `changed` is no position.
    """
    if not moved:
        raise ValueError("moved: expected at least one mask by name, got none.")
    distances = np.stack([from_tensor(row, f"moved[{name!r}]", (1,)) for name, row in moved.items()])
    spoken = as_words(words, distances.shape[1], "words")
    if not 0 <= changed < len(spoken):
        raise ValueError(
            f"changed: expected a position from 0 to {len(spoken) - 1}, the place of the changed token, "
            f"got {changed}."
        )
    names = list(moved)
    columns = [f"▼ {word}" if place == changed else word for place, word in enumerate(spoken)]
    grid = Grid(
        names, columns, cell_size(len(columns), WIDTH - ROOM_BESIDE, 62), ("mask", "output at", "moved")
    )
    leaks = {name: int((row[:changed] != 0).sum()) for name, row in zip(names, distances, strict=True)}
    heading = title or _finding(leaks, spoken[changed])
    told = "; ".join(f"{name}: {count} outputs before it moved" for name, count in leaks.items())
    lines = [
        "The token at ▼ was changed. A number says how far an output moved; 0: the same to the last bit.",
        "From ▼ on outputs may move. Orange with !: it stands before ▼ and moved, so it saw the future.",
    ]
    return alt.hconcat(grid.draw(_cells(grid, distances, changed))).properties(
        title=alt.Title(heading, subtitle=lines),
        description=f"{heading}. The token {spoken[changed]} at position {changed} was changed. {told}.",
    )


def _finding(leaks: Mapping[str, int], word: str) -> str:
    leaking = sum(count > 0 for count in leaks.values())
    if not leaking:
        return f"Changing '{word}' moves nothing before it: no mask leaks"
    return f"Changing '{word}' moves outputs before it under {leaking} of {len(leaks)} masks"


def _cells(grid: Grid, distances: Floats, changed: int) -> pd.DataFrame:
    """One table row for each output: grey where it stayed, blue or orange where it moved."""
    table = grid.table(distances, Shades(0.0, _largest(distances), AMOUNTS), write=_brief)
    before, still = table["column"] < changed, distances.ravel() == 0
    table.loc[still, ["fill", "ink", "shown"]] = [EQUAL_FILL, MASKED_INK, "0" if grid.has_room else ""]
    table.loc[still, "told"] = "not at all"
    for place in table.index[before & ~still]:
        value = float(distances.ravel()[place])
        shown = f"{_brief(value)}!" if grid.has_room else "!"
        told = f"{exact(value)}, although it stands before the change"
        table.loc[place, ["fill", "ink", "shown", "told"]] = [ALARM_FILL, ALARM_INK, shown, told]
    table.loc[before & ~still, "kind"] = "leak"
    return table


def _brief(value: float) -> str:
    """A distance in a few signs; a small one must not look like none at all."""
    return f"{value:.0e}".replace("e-0", "e-") if 0 < value < 0.01 else short(value)


def _largest(distances: Floats) -> float:
    return max((value for value in distances.ravel().tolist() if math.isfinite(value)), default=0.0) or 1.0
