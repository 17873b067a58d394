"""All that can be checked, by name."""

from functools import cache

from course_lib.checks.engine.exercise import Exercise, Prediction
from course_lib.checks.exercises.attention import probes as attention
from course_lib.checks.exercises.decoding import probes as decoding
from course_lib.checks.exercises.final_lab import probes as the_final_lab
from course_lib.checks.exercises.final_lab.hand_in import HandIn
from course_lib.checks.exercises.label_smoothing import probes as label_smoothing
from course_lib.checks.exercises.masks import probes as masks
from course_lib.checks.exercises.multi_head import probes as multi_head
from course_lib.checks.exercises.orientation import probes as broadcasting
from course_lib.checks.exercises.positional_encoding import probes as positions
from course_lib.checks.exercises.schedule import probes as schedule
from course_lib.checks.exercises.sublayers import probes as sublayers
from course_lib.checks.exercises.the_transformer import probes as the_transformer
from course_lib.checks.exercises.training import probes as training
from course_lib.checks.exercises.translation_data import probes as translation_data

PROBE_MODULES = (
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
    entries = [entry for lesson in PROBE_MODULES for entry in lesson.CATALOGUE]
    by_name = {entry.name: entry for entry in entries}
    assert len(by_name) == len(entries), "two of them have the same name"
    return by_name


def find(name: str) -> Exercise | Prediction | HandIn:
    """Give one of them. Raises ValueError for a name that is none of theirs."""
    if name not in catalogue():
        raise ValueError(f"there is no exercise called {name!r}; there are: {', '.join(catalogue())}")
    return catalogue()[name]
