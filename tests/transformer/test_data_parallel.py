"""`shard` and `global_token_mean`, in one process and in several real processes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.transformer.data_parallel import global_token_mean, shard
from course_lib.translation.distributed import DistributedInfo
from tests.translation.real_processes import in_processes

SUMS, COUNTS = [6.0, 1.0, 5.0], [3, 1, 0]


@given(st.lists(st.integers(), max_size=20), st.integers(1, 6))
def test_shards_hold_each_batch_once_and_differ_by_one(batches: list[int], world_size: int) -> None:
    shards = [list(shard(batches, rank, world_size)) for rank in range(world_size)]
    assert sorted(batch for part in shards for batch in part) == sorted(batches)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    assert shards[0] == batches[::world_size]


def test_the_mean_of_one_process_is_its_own() -> None:
    loss_sum, token_count = torch.tensor(6.0, requires_grad=True), torch.tensor(4)
    mean = global_token_mean(loss_sum, token_count)
    assert mean.item() == 1.5
    assert mean.dtype == torch.float32
    assert not mean.requires_grad
    assert (loss_sum.item(), token_count.item()) == (6.0, 4)


def mean_of(distributed: DistributedInfo) -> tuple[float, float, int]:
    loss_sum, token_count = torch.tensor(SUMS[distributed.rank]), torch.tensor(COUNTS[distributed.rank])
    mean = global_token_mean(loss_sum, token_count)
    return mean.item(), loss_sum.item(), int(token_count)


@pytest.mark.slow
def test_the_mean_of_three_processes_weighs_tokens_and_not_processes() -> None:
    for rank, (mean, loss_sum, token_count) in enumerate(in_processes(3, mean_of)):
        assert mean == 3.0
        assert (loss_sum, token_count) == (SUMS[rank], COUNTS[rank])
