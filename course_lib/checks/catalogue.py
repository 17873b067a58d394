"""All that can be checked, by name."""

from functools import cache

from course_lib.checks.exercise import Exercise, Prediction
from course_lib.checks.hand_in import HandIn
from course_lib.checks.lessons import (
    attention,
    broadcasting,
    decoding,
    label_smoothing,
    masks,
    multi_head,
    positions,
    schedule,
    sublayers,
    the_final_lab,
    the_transformer,
    training,
    translation_data,
)

_LESSONS = (
    broadcasting,
    attention,
    multi_head,
    sublayers,
    masks,
    positions,
    the_transformer,
    schedule,
    label_smoothing,
    training,
    translation_data,
    decoding,
    the_final_lab,
)


@cache
def catalogue() -> dict[str, Exercise | Prediction | HandIn]:
    """Give every exercise, prediction and file to hand in, by its name, in the order of the lessons."""
    entries = [entry for lesson in _LESSONS for entry in lesson.CATALOGUE]
    by_name = {entry.name: entry for entry in entries}
    assert len(by_name) == len(entries), "two of them have the same name"
    return by_name


def find(name: str) -> Exercise | Prediction | HandIn:
    """Give one of them. Raises ValueError for a name that is none of theirs."""
    if name not in catalogue():
        raise ValueError(f"there is no exercise called {name!r}; there are: {', '.join(catalogue())}")
    return catalogue()[name]
