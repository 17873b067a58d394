"""The selection of the best weights, and early stopping, for any sequence of measurements."""

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from course_lib.translation.configs.schema import SelectionConfig
from course_lib.translation.train.evaluation import BestWeights

LOSSES = st.lists(st.floats(0, 10), min_size=1, max_size=12)


def run(selection: BestWeights, losses: Sequence[float], first: int = 0) -> list[bool]:
    better = []
    for step, loss in enumerate(losses, start=first + 1):
        if selection.patience_exhausted:
            break
        better.append(selection.is_better({"validation_loss": loss, "bleu": 100 - loss}, step))
    return better


@given(LOSSES, st.integers(1, 4))
def test_ends_after_patience_measurements_that_are_no_better(losses: list[float], patience: int) -> None:
    selection = BestWeights(SelectionConfig(patience=patience))
    seen = losses[: len(run(selection, losses))]
    assert selection.step == 1 + seen.index(min(seen))
    assert len(seen) - selection.step <= patience
    assert selection.patience_exhausted == (len(seen) - selection.step == patience)
    assert selection.patience_exhausted or seen == losses


@given(LOSSES, st.integers(0, 12))
def test_going_on_from_its_state_is_as_if_it_had_not_stopped(losses: list[float], stop: int) -> None:
    config = SelectionConfig(patience=3)
    whole, first, second = BestWeights(config), BestWeights(config), BestWeights(config)
    expected = run(whole, losses)
    got = run(first, losses[:stop])
    second.load(first.state())
    assert got + run(second, losses[stop:], stop) == expected
    assert second.state() == whole.state()


def test_bleu_is_better_when_larger() -> None:
    selection = BestWeights(SelectionConfig(metric="bleu"))
    assert [selection.is_better({"bleu": bleu}, 1) for bleu in (1.0, 2.0, 2.0, 0.5)] == [
        True,
        True,
        False,
        False,
    ]


def test_what_is_no_measurement_counts_for_nothing_and_nan_is_never_best() -> None:
    selection = BestWeights(SelectionConfig(metric="bleu", patience=1))
    assert not selection.is_better({"validation_loss": 1.0}, 1)
    assert not selection.patience_exhausted
    assert not selection.is_better({"bleu": math.nan}, 2)
    assert selection.patience_exhausted
    assert selection.step == 0
