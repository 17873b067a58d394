"""The plan of an epoch: the sentences in each batch, and the order of the batches."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.translation.train.batches import epoch_plan

#: A recorded plan. A run that is resumed after an update of numpy must get the same one.
PLAN = [[[5, 8], [0, 6, 1, 10]], [[4], [11, 2, 7]], [[3, 9]]]


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=60),
    st.integers(20, 100),
    st.integers(1, 4),
)
def test_a_plan_holds_each_pair_once_within_the_budget(
    lengths: list[tuple[int, int]], max_tokens: int, batches_per_update: int
) -> None:
    plan = epoch_plan(lengths, max_tokens, batches_per_update, seed=1, epoch=0)
    batches = [batch for update in plan for batch in update]
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert max(max(lengths[index]) for index in batch) * len(batch) <= max_tokens
    assert all(len(update) == batches_per_update for update in plan[:-1])
    assert 1 <= len(plan[-1]) <= batches_per_update
    # The number of updates is the same in every epoch, so that progress can be predicted.
    assert len(epoch_plan(lengths, max_tokens, batches_per_update, seed=1, epoch=1)) == len(plan)


def test_a_plan_is_the_same_on_every_machine_and_in_every_version() -> None:
    lengths = [(index % 5 + 1, index % 3 + 1) for index in range(12)]
    assert epoch_plan(lengths, 10, 2, seed=1, epoch=0) == PLAN


def test_a_plan_refuses_a_pair_over_the_budget() -> None:
    with pytest.raises(ValueError, match="has 11 tokens, but a batch may have at most 10"):
        epoch_plan([(3, 4), (2, 11)], 10, 1, seed=1, epoch=0)
    assert epoch_plan([], 10, 1, seed=1, epoch=0) == []


def test_a_plan_depends_on_seed_and_epoch_alone() -> None:
    lengths = [(index % 17 + 1, index % 13 + 1) for index in range(300)]
    plan = epoch_plan(lengths, 100, 2, seed=1, epoch=0)
    torch.manual_seed(99)
    assert epoch_plan(lengths, 100, 2, seed=1, epoch=0) == plan
    others = [epoch_plan(lengths, 100, 2, seed=1, epoch=1), epoch_plan(lengths, 100, 2, seed=2, epoch=0)]
    assert plan not in others
    assert others[0] != others[1]
    neighbours = [{frozenset(batch) for update in one for batch in update} for one in (plan, *others)]
    assert len(neighbours[0] & neighbours[1]) < len(neighbours[0]) / 2, "batches differ in the next epoch"
