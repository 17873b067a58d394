"""The grader, graded: every mistake is named, every right answer passes, nobody is accused falsely."""

import pytest

from course_lib.checks.engine.diagnosis import combinable, examine
from course_lib.checks.engine.exercise import Exercise
from course_lib.checks.engine.local_backend import LocalHolder
from course_lib.checks.exercises.registry import catalogue
from tests.checks.kill_matrix import FOLDER, VARIANTS, exercises, matrix
from tests.checks.totals import kept_rows, totals
from tests.checks.unrelated import UNRELATED

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
SEEDS = ["practice", "graded 1706"]
by_name = pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)


@by_name
def test_matrix_is_the_one_in_the_repo(exercise: Exercise) -> None:
    kept = (FOLDER / f"{exercise.name}.csv").read_text(encoding="utf-8")
    assert matrix(exercise) == kept, "run `make kill-matrix` and look at what changed"


def test_no_matrix_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.csv")} == {exercise.name for exercise in exercises()}


@by_name
def test_there_are_enough_mistakes_and_variants(exercise: Exercise) -> None:
    assert len(exercise.misconceptions) >= 8
    assert len(VARIANTS[exercise.name]) >= 4


@by_name
@pytest.mark.parametrize("seed", SEEDS)
def test_right_answers_pass(exercise: Exercise, seed: str) -> None:
    for found in (exercise.reference, *VARIANTS[exercise.name]):
        verdict = examine(exercise, LocalHolder(found), seed)
        assert verdict.passed, (found.__name__, verdict.failures, verdict.difference)


@by_name
def test_each_mistake_is_named(exercise: Exercise) -> None:
    """With other numbers than the matrix's, and run as a student's own code is."""
    for mistake in exercise.misconceptions:
        verdict = examine(exercise, LocalHolder(exercise.with_mistakes(mistake)), SEEDS[1])
        assert [named.name for named in verdict.named] == [mistake.name]


@by_name
def test_each_pair_is_rejected_and_explained(exercise: Exercise) -> None:
    """A pair may give the same as one of its mistakes, or as another pair; then that is named.

    The matrix in the repo is the one that another test has just made anew.
    """
    says = [probe.says for probe in exercise.probes]
    pairs = [row for row in kept_rows(exercise) if row["kind"] == "pair"]
    assert len(pairs) == sum(1 for _ in combinable(exercise))
    for row in pairs:
        assert "x" in [row[probe] for probe in says], row["name"]
        assert row["told"], row["name"]


@by_name
@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_is_accused_falsely(exercise: Exercise, seed: str) -> None:
    assert len(UNRELATED[exercise.name]) >= 6
    for found in UNRELATED[exercise.name]:
        verdict = examine(exercise, LocalHolder(found), seed)
        assert not verdict.passed
        assert verdict.named == (), verdict.difference


def test_totals() -> None:
    counted = totals()
    assert counted.named == counted.misconceptions > 0
    assert counted.false_accusations == 0


def test_names_are_unique_in_the_course() -> None:
    for entry in catalogue().values():
        names = [mistake.name for mistake in entry.misconceptions]
        assert len(names) == len(set(names))
