"""Tests of the checks: every mistake is named, every correct answer passes, and no accusation is false."""

import pytest

from course_lib.checks.engine.diagnosis import examine
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import Raised
from course_lib.checks.engine.versions import Versions
from tests.checks.kill_matrix import FILE, SEED, VARIANTS, exercises, kept, kill, summary, written
from tests.checks.totals import totals
from tests.checks.unrelated import UNRELATED

pytestmark = pytest.mark.slow
SEEDS = ["practice", "graded 1706"]
by_name = pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)


@by_name
def test_mistakes_are_named(exercise: ExerciseCheck) -> None:
    """Try every twelfth mistake. The nightly test below tries all of them."""
    for mistake in exercise.misconceptions[::12]:
        assert kill(exercise, (mistake,), SEED).named == (mistake,)


@by_name
@pytest.mark.nightly
def test_the_summary_in_the_repository_is_current(exercise: ExerciseCheck) -> None:
    found = summary(exercise)
    assert found == kept()[exercise.name], "run `make kill-matrix` and review the changes"
    assert not [name for name in found.get("not_named", []) if " + " not in name]
    assert "not_rejected" not in found


#: The misconceptions that leave a tensor on the CPU. In any other one, this would be a second mistake, so a
#: student who makes only the first would not be told it exactly.
ON_THE_CPU = {
    "LayerNorm": {"plain_tensors", "copied_at_construction"},
    "PositionalEncoding": {"table_left_behind"},
    "SublayerConnection": {"norm_made_anew"},
    "TokenEmbedding": {"dtype_of_the_factor"},
    "Transformer": {"plain_lists", "decoder_list_plain"},
    "attention_scores": {"divisor_with_an_axis"},
}


@pytest.mark.parametrize(
    "exercise",
    [
        pytest.param(each, id=each.name, marks=() if each.name in ON_THE_CPU else pytest.mark.nightly)
        for each in exercises()
    ],
)
def test_only_these_mistakes_mix_devices(exercise: ExerciseCheck) -> None:
    versions = Versions(exercise, SEED)
    numbers = [n for n, probe in enumerate(exercise.probes) if "device" in probe.description]
    found = {
        mistake.name
        for mistake in exercise.misconceptions
        for number in numbers
        for reply in versions.outcome((mistake,), number).replies
        if isinstance(reply, Raised) and "on a GPU" in reply.message
    }
    assert found == ON_THE_CPU.get(exercise.name, set())


def test_the_summary_is_written_as_it_is_read() -> None:
    assert list(kept()) == [exercise.name for exercise in exercises()]
    assert written(kept()) == FILE.read_text(encoding="utf-8")


@by_name
def test_there_are_enough_mistakes_and_variants(exercise: ExerciseCheck) -> None:
    assert len(exercise.misconceptions) >= 8
    assert len(VARIANTS[exercise.name]) >= 4


@by_name
@pytest.mark.parametrize("seed", [SEEDS[0], pytest.param(SEEDS[1], marks=pytest.mark.nightly)])
def test_right_answers_pass(exercise: ExerciseCheck, seed: str) -> None:
    for found in (exercise.reference, *VARIANTS[exercise.name]):
        verdict = examine(exercise, LocalBackend(found), seed)
        assert verdict.passed, (found.__name__, verdict.failures, verdict.difference)


@by_name
@pytest.mark.nightly
def test_mistakes_are_named_with_other_numbers_too(exercise: ExerciseCheck) -> None:
    """Check every third mistake as a student's code, with different random numbers from the matrix."""
    for mistake in exercise.misconceptions[::3]:
        verdict = examine(exercise, LocalBackend(exercise.with_mistakes(mistake)), SEEDS[1])
        assert [named.name for named in verdict.explanation.named] == [mistake.name]


@pytest.mark.parametrize(
    "exercise",
    [
        # An unknown mistake takes longest.
        pytest.param(each, id=each.name, marks=() if number % 3 == 0 else pytest.mark.nightly)
        for number, each in enumerate(exercises())
    ],
)
def test_nobody_is_accused_falsely(exercise: ExerciseCheck) -> None:
    assert len(UNRELATED[exercise.name]) >= 6
    # Only every twelfth, to save time.
    for found in UNRELATED[exercise.name][::12]:
        verdict = examine(exercise, LocalBackend(found), SEEDS[0])
        assert not verdict.passed
        # General mistakes, such as a result of None or an undefined name, may be named in any exercise.
        assert not set(verdict.explanation.named) & set(exercise.misconceptions), verdict.difference


def test_totals() -> None:
    counted = totals()
    assert counted.named == counted.misconceptions > 0
    assert counted.false_accusations == 0
