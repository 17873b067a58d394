"""Batches are loaded on each rank's device, and prefetching doesn't change them."""

import threading
from collections.abc import Callable

import torch

from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.distributed import SINGLE_PROCESS, DistributedInfo
from course_lib.translation.train.batches import BatchLoader, DeviceBatch
from tests.translation.train.micro_training import material, new_trainer, weights

Configs = Callable[..., RunConfig]


def new_loader(config: RunConfig, distributed: DistributedInfo = SINGLE_PROCESS) -> BatchLoader:
    return BatchLoader(config, *material(config), distributed, torch.device("cpu"))


def assert_equal_batches(got: list[DeviceBatch], expected: list[DeviceBatch]) -> None:
    assert len(got) == len(expected) > 0
    for ours, theirs in zip(got, expected, strict=True):
        assert (ours.number, ours.counts) == (theirs.number, theirs.counts)
        assert torch.equal(ours.source, theirs.source)
        assert torch.equal(ours.target, theirs.target)
        assert torch.equal(ours.positions, theirs.positions)


def test_the_thread_ends_with_the_block(tiny_config: Configs) -> None:
    before = set(threading.enumerate())
    with new_loader(tiny_config()) as loader:
        first, second, *_ = loader.plan(0)
        loader.load(first)
        assert set(threading.enumerate()) <= before
        loader.prefetch(second)
        assert [thread.name for thread in set(threading.enumerate()) - before] == ["prefetch_0"]
    assert set(threading.enumerate()) <= before


def test_prefetched_batches_are_those_that_are_loaded(tiny_config: Configs) -> None:
    with new_loader(tiny_config()) as loader:
        first, second, third, *_ = loader.plan(0)
        expected = [loader.load(update) for update in (first, second, third)]
        loader.prefetch(first)
        assert loader._prefetched is not None
        prefetched = loader._prefetched[1].result()
        assert loader.load(first) is prefetched
        assert_equal_batches(prefetched, expected[0])
        # Batches that weren't prefetched are loaded.
        loader.prefetch(second)
        assert_equal_batches(loader.load(third), expected[2])


def test_the_ranks_share_the_batches_and_count_all_labels(tiny_config: Configs) -> None:
    config = tiny_config("training.batches_per_update=3")
    (update, *_) = new_loader(config).plan(0)
    whole = new_loader(config).load(update)
    shares = []
    for rank in range(2):
        loader = new_loader(config, DistributedInfo(rank, 2, rank, 2))
        shares += loader.load(update)
        assert loader.label_count(update) == sum(batch.counts.target_tokens for batch in whole)
    assert_equal_batches(sorted(shares, key=lambda batch: batch.number), whole)


def test_an_update_uses_its_own_batches_even_if_others_were_prefetched(tiny_config: Configs) -> None:
    plain, prefetching = new_trainer(tiny_config()), new_trainer(tiny_config())
    first, second, third, *_ = plain.plan()
    for trainer, upcoming in ((plain, None), (prefetching, third)):
        with trainer.loader:
            trainer.update(first, upcoming)
            trainer.update(second)
    assert weights(prefetching) == weights(plain)
