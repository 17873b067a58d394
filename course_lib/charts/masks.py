"""The charts of lesson 04: masks side by side, and a probe for outputs that depend on later tokens."""

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np

from course_lib.charts.attention import mask_cells
from course_lib.charts.inputs import Numbers, as_words, check_index, from_tensor, mask_from_tensor
from course_lib.charts.marks import (
    Cell,
    Grid,
    Shades,
    captioned,
    cell_size,
    exact,
    leak_cell,
    number_cell,
    short,
)
from course_lib.charts.theme import EQUAL_FILL, MASKED_INK, WIDTH, Picture


def mask_panels(
    masks: Mapping[str, Numbers],
    words: Sequence[str],
    *,
    title: str = "Which keys may each query attend to?",
) -> Picture:
    """Draw one panel for each mask of a sentence, with a row for each query and a column for each key.

    The L `words` of the sentence are both the queries and the keys. `masks` maps a name to a boolean mask,
    True for "may attend", that broadcasts to (1, L, L). A mask of shape (1, L) has the same row for every
    query. Raises ValueError if a mask isn't boolean or doesn't broadcast to (1, L, L), or if `words` isn't a
    list.
    """
    tokens = as_words(words, len(words), "words")
    shape = (1, len(tokens), len(tokens))
    allowed = {name: mask_from_tensor(mask, shape)[0] for name, mask in masks.items()}
    gap = 26
    size = cell_size(len(masks) * len(tokens), WIDTH - 120 - gap * (len(masks) - 1), 36)
    grid = Grid(tokens, tokens, size, ("query", "key", "mask"))
    panels = {name: mask_cells(mask) for name, mask in allowed.items()}
    counts = "; ".join(f"{name} {int(mask.sum())} of {mask.size}" for name, mask in allowed.items())
    lines = [
        "Each row is a query. A tick: it may attend to this key. ×: it must not.",
        f"Allowed pairs: {counts}.",
    ]
    last, mask = list(allowed.items())[-1]
    seen = ", ".join(f"{word} {int(keys.sum())}" for word, keys in zip(tokens, mask, strict=True))
    details = f"Allowed pairs: {counts}. Keys allowed for each query under {last}: {seen}."
    return captioned(grid.side_by_side(panels, gap=gap), title, lines, details)


def leak_probe(moved: Mapping[str, Numbers], words: Sequence[str], changed: int) -> Picture:
    """Draw the distances by which the outputs moved when the token at position `changed` was replaced.

    There is a row for each mask. `moved` maps its name to L distances, one for each of the L words; 0 means
    that the output is exactly the same. If an output before the changed token moved, it depends on a later
    token, so its cell is orange with a "!". An arrow marks the changed token. The title says under how many
    masks an earlier output moved. Raises ValueError if `words` is not a list of L words, or if `changed`
    isn't a position.
    """
    distances = np.stack([from_tensor(row, f"moved[{name!r}]", (1,)) for name, row in moved.items()])
    tokens = as_words(words, distances.shape[1], "words")
    check_index(changed, len(tokens), "changed", "a position")
    columns = [f"▼ {word}" if position == changed else word for position, word in enumerate(tokens)]
    size = cell_size(len(columns), WIDTH - 210, 62)
    grid = Grid(list(moved), columns, size, ("mask", "output at", "moved by"))
    shades = Shades.spanning(distances)
    cells = [
        _moved_cell(float(value), shades, before=position < changed, has_room=grid.has_room)
        for (_, position), value in np.ndenumerate(distances)
    ]
    leaks = {name: int((row[:changed] != 0).sum()) for name, row in zip(moved, distances, strict=True)}
    leaking = sum(count > 0 for count in leaks.values())
    word = tokens[changed]
    heading = (
        f"Changing '{word}' moves earlier outputs under {leaking} of {len(leaks)} masks"
        if leaking
        else f"Changing '{word}' moves no earlier output: no mask leaks"
    )
    details = "; ".join(
        f"{name}: {count} earlier output{'' if count == 1 else 's'} moved" for name, count in leaks.items()
    )
    lines = [
        "The token at ▼ was changed. A number is the distance that an output moved; 0: same to the last bit.",
        "Outputs from ▼ on may move. Orange with !: an earlier output moved, so it depends on a later token.",
    ]
    details = f"The token {word} at position {changed} was changed. {details}."
    return captioned(alt.hconcat(grid.draw(cells)), heading, lines, details)


def _moved_cell(value: float, shades: Shades, *, before: bool, has_room: bool) -> Cell:
    # A small distance must not look like zero.
    written = f"{value:.1g}" if 0 < value < 0.01 else short(value)
    if value == 0:
        return Cell(EQUAL_FILL, "0" if has_room else "", "not at all", ink=MASKED_INK)
    if before:
        return leak_cell(
            f"! {written}" if has_room else "!", f"{exact(value)}, although this output is before the change"
        )
    return number_cell(value, shades, (lambda _: written) if has_room else None)
