"""The kill matrix: for every exercise, which probe rejects which mistake, and what the student is told.

`make kill-matrix` writes it anew; `test_kill_matrix.py` compares it with what stands in the repo.
"""

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from course_lib.checks.engine.diagnosis import Verdict, combinable, examine, examine_version
from course_lib.checks.engine.exercise import Exercise
from course_lib.checks.engine.local_backend import LocalHolder
from course_lib.checks.exercises.registry import catalogue
from tests.checks.variants import (
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

FOLDER = Path(__file__).parent / "kill_matrix"
SEED = "kill matrix"
VARIANTS: dict[str, tuple[Callable[..., Any], ...]] = {
    **broadcasting.VARIANTS,
    **attention.VARIANTS,
    **multi_head.VARIANTS,
    **sublayers.VARIANTS,
    **masks.VARIANTS,
    **positions.VARIANTS,
    **the_transformer.VARIANTS,
    **schedule.VARIANTS,
    **label_smoothing.VARIANTS,
    **training.VARIANTS,
    **translation_data.VARIANTS,
    **decoding.VARIANTS,
    **the_final_lab.VARIANTS,
}


def exercises() -> list[Exercise]:
    """Give every exercise of the course."""
    return [entry for entry in catalogue().values() if isinstance(entry, Exercise)]


def rows(exercise: Exercise) -> Iterator[tuple[str, str, Verdict]]:
    """Give what stands in the matrix: its kind, its name, and what is found out about it."""
    yield "reference", exercise.name, examine(exercise, LocalHolder(exercise.reference), SEED)
    for variant in VARIANTS[exercise.name]:
        yield "variant", variant.__name__, examine(exercise, LocalHolder(variant), SEED)
    for mistake in exercise.misconceptions:
        yield "misconception", mistake.name, examine_version(exercise, (mistake,), SEED)
    for pair in combinable(exercise):
        yield "pair", " + ".join(mistake.name for mistake in pair), examine_version(exercise, pair, SEED)


def matrix(exercise: Exercise) -> str:
    """Give the matrix of one exercise as CSV: an x where the probe rejects."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["kind", "name", "told", *(probe.says for probe in exercise.probes)])
    for kind, name, verdict in rows(exercise):
        told = " + ".join(mistake.name for mistake in verdict.named)
        rejecting = ("x" if probe in verdict.failures else "" for probe in exercise.probes)
        writer.writerow([kind, name, told, *rejecting])
    return text.getvalue()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for exercise in exercises():
        (FOLDER / f"{exercise.name}.csv").write_text(matrix(exercise), encoding="utf-8")
