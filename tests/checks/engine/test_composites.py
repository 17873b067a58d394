"""Answers that combine three known mistakes. The kill matrix tests pairs."""

import random
from collections.abc import Iterator

import pytest

from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.misconceptions import Misconception
from course_lib.checks.engine.search import can_be_combined
from tests.checks.kill_matrix import exercises, kill

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


def composites(exercise: ExerciseCheck, size: int, count: int) -> Iterator[tuple[Misconception, ...]]:
    """Yield random combinations of an exercise's misconceptions whose patches fit together."""
    draw = random.Random(f"{exercise.name} {size}")
    chosen: set[tuple[str, ...]] = set()
    for _ in range(50 * count):
        indices = sorted(draw.sample(range(len(exercise.misconceptions)), size))
        mistakes = tuple(exercise.misconceptions[index] for index in indices)
        names = tuple(mistake.name for mistake in mistakes)
        if names not in chosen and len(chosen) < count and can_be_combined(exercise, mistakes):
            chosen.add(names)
            yield mistakes


def test_most_composites_of_three_known_mistakes_are_named() -> None:
    found = [
        (exercise.name, kill(exercise, mistakes, "composites"))
        for exercise in exercises()
        for mistakes in composites(exercise, size=3, count=2)
    ]
    named = sum(bool(one.named) for _, one in found)
    failed = sum(bool(one.failures) for _, one in found)
    # Two mistakes can cancel each other out, but that is rare.
    assert failed >= 0.97 * len(found) > 75
    others = [name for name, one in found if not one.named]
    # Some are not named, because the search is limited, so that a check responds to an unknown mistake within
    # about two seconds.
    assert named >= 0.75 * failed, f"{named} of {failed}; {others}"
