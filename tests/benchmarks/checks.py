"""Measure how long a check takes to answer: `python -m tests.benchmarks.checks`.

The times are for a fresh notebook, in which nothing about the exercise is cached. A check is slowest
for a wrong result that no known mistake explains, because it then tries all mistakes and pairs of mistakes.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from course_lib.checks.engine.diagnosis import examine
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.versions import known_versions
from tests.checks.kill_matrix import exercises
from tests.checks.unrelated import UNRELATED


def slowest(exercise: ExerciseCheck, candidates: Iterable[Callable[..., Any]]) -> float:
    """Return the time of the slowest check, in seconds."""
    times = []
    for found in candidates:
        known_versions.cache_clear()
        began = time.perf_counter()
        examine(exercise, LocalBackend(found), "practice")
        times.append(time.perf_counter() - began)
    return max(times)


def main() -> None:
    """Print a table with a row for each exercise."""
    console = Console(highlight=False)
    examine(exercises()[0], LocalBackend(exercises()[0].reference), "practice")  # warm-up
    table = Table(title=f"Seconds until a check answers; threads: {torch.get_num_threads()}")
    for column in ("exercise", "right", "known mistake", "unknown mistake"):
        table.add_column(column, justify="left" if column == "exercise" else "right")
    for exercise in exercises():
        known = [exercise.with_mistakes(mistake) for mistake in exercise.misconceptions]
        groups = ([exercise.reference], known, UNRELATED[exercise.name])
        table.add_row(exercise.name, *(f"{slowest(exercise, group):.2f}" for group in groups))
    console.print(table)


if __name__ == "__main__":
    main()
