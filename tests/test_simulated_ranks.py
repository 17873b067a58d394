"""Simulated ranks, which behave like those of torch.distributed, and the reports of lesson 12's fixtures."""

import sys
import threading
from typing import Any

import pytest
import torch
import torch.distributed as dist

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import OUT_OF_TIME, Raised, Reply, Returned
from course_lib.checks.exercises.fixtures.ranks import batches_of_ranks, means_of_ranks
from course_lib.simulated_ranks import CollectiveMismatchError, DeadlockError, on_ranks, started
from course_lib.transformer.data_parallel import global_token_mean, shard

SUMS, COUNTS = (torch.tensor(6.0), torch.tensor(4.0)), (torch.tensor(3), torch.tensor(1))


def asked(found: object, *arguments: Any, **settings: Any) -> Reply:
    candidate = Candidate(LocalBackend(found))
    return candidate.fixture(means_of_ranks(**settings)).call(candidate, *(arguments or (SUMS, COUNTS)))


def told(found: object, **settings: Any) -> dict[str, Any]:
    reply = asked(found, **settings)
    assert isinstance(reply, Returned), reply
    return dict(reply.value)


def collectives(rank: int) -> dict[str, Any]:
    mine = torch.tensor([float(rank + 1), 2.0])
    total, mean, first, reduced = mine.clone(), mine.clone(), mine.clone(), mine.clone()
    dist.all_reduce(total)
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    dist.broadcast(first, src=0)
    dist.reduce(reduced, dst=1)
    parts = [torch.empty(2) for _ in range(3)]
    dist.all_gather(parts, mine)
    flat = torch.empty(6)
    dist.all_gather_into_tensor(flat, mine)
    collected = [torch.empty(2) for _ in range(3)] if rank == 2 else None
    dist.gather(mine, collected, dst=2)
    names: list[Any] = [None] * 3
    dist.all_gather_object(names, f"process {rank}")
    dist.barrier()
    return {
        "place": (dist.get_rank(), dist.get_world_size()),
        "numbers": [one.tolist() for one in (total, mean, first, reduced)],
        "gathered": [torch.stack(parts).flatten().tolist(), flat.tolist()],
        "collected": None if collected is None else torch.stack(collected).tolist(),
        "names": names,
    }


def test_collectives_give_what_real_processes_would_get() -> None:
    everything = [1.0, 2.0, 2.0, 2.0, 3.0, 2.0]
    for rank, seen in enumerate(on_ranks(3, collectives)):
        own = [rank + 1.0, 2.0]
        assert seen["place"] == (rank, 3)
        assert seen["numbers"] == [[6.0, 6.0], [2.0, 2.0], [1.0, 2.0], [6.0, 6.0] if rank == 1 else own]
        assert seen["gathered"] == [everything, everything]
        assert seen["collected"] == ([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]] if rank == 2 else None)
        assert seen["names"] == ["process 0", "process 1", "process 2"]


def test_nothing_is_left_behind() -> None:
    hook, threads = sys.excepthook, set(threading.enumerate())
    for _ in range(3):
        on_ranks(2, lambda rank: dist.barrier())
    assert not dist.is_initialized()
    assert sys.excepthook is hook
    on_ranks(1, lambda rank: dist.destroy_process_group())
    assert sys.excepthook is hook
    assert set(threading.enumerate()) <= threads


def test_who_waits_for_ever_is_told_so() -> None:
    def one_leaves(rank: int) -> None:
        if rank == 0:
            dist.all_reduce(torch.zeros(1))

    message = "rank 0 waits forever in all_reduce with 1 float32 number: rank 1 has ended"
    with pytest.raises(DeadlockError, match=message):
        on_ranks(2, one_leaves)


def test_who_does_something_else_is_told_so() -> None:
    def at_odds(rank: int) -> None:
        dist.barrier() if rank else dist.all_reduce(torch.zeros(1))

    message = "rank 0 calls all_reduce with 1 float32 number, rank 1 calls barrier"
    with pytest.raises(CollectiveMismatchError, match=message):
        on_ranks(2, at_odds)


def test_ranks_that_reduce_different_sizes_are_told_so() -> None:
    with pytest.raises(CollectiveMismatchError, match="rank 1 calls all_reduce with 2 float32 numbers"):
        on_ranks(2, lambda rank: dist.all_reduce(torch.zeros(rank + 1)))


def test_a_collective_that_nobody_waits_for_is_missed_as_well() -> None:
    def starts(rank: int) -> None:
        if rank == 1:
            dist.all_reduce(torch.zeros(1), async_op=True)

    with pytest.raises(DeadlockError, match=r"rank 1 waits forever .*: rank 0 has ended"):
        on_ranks(2, starts)


def test_an_asynchronous_result_is_there_after_waiting() -> None:
    def starts(rank: int) -> list[Any]:
        tensor = torch.tensor([float(rank)])
        work = dist.all_reduce(tensor, async_op=True)
        before, waited = tensor.item(), started()[0].waited
        work.wait()
        return [before, waited, tensor.item(), started()[0].waited]

    assert on_ranks(2, starts) == [[0.0, False, 1.0, True], [1.0, False, 1.0, True]]


def test_a_tensor_that_is_changed_in_flight_is_noticed() -> None:
    def changes(rank: int) -> bool:
        tensor = torch.ones(1)
        work = dist.all_reduce(tensor, async_op=True)
        if rank == 0:
            tensor += 1
        work.wait()
        return started()[0].changed_in_flight

    assert on_ranks(2, changes) == [True, False]


def test_the_failure_of_one_is_what_is_raised_not_that_others_wait() -> None:
    def fails(rank: int) -> None:
        if rank == 1:
            raise KeyError("loss")
        dist.all_reduce(torch.zeros(1))

    with pytest.raises(KeyError, match="loss"):
        on_ranks(2, fails)


def test_a_group_that_is_open_already_is_named() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(RuntimeError, match="a process group was already open"):
            on_ranks(2, lambda rank: rank)
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("endless", [0, 1])
def test_an_endless_answer_is_stopped(monkeypatch: pytest.MonkeyPatch, world_size: int, endless: int) -> None:
    monkeypatch.setattr("course_lib.simulated_ranks._SECONDS", 0.3)
    threads = set(threading.enumerate())

    def waits(loss_sum: torch.Tensor, token_count: torch.Tensor) -> None:
        while dist.get_rank() == endless:
            pass
        dist.all_reduce(token_count)

    reply = asked(waits, SUMS[:1] * world_size, COUNTS[:1] * world_size)
    assert isinstance(reply, Raised)
    assert reply.kind == OUT_OF_TIME
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_an_answer_may_ask_again_and_again_whether_a_collective_has_ended(world_size: int) -> None:
    def polls(rank: int) -> list[float]:
        tensor = torch.tensor([1.0])
        work = dist.all_reduce(tensor, async_op=True)
        while not work.is_completed():
            pass
        return [float(number) for number in tensor.tolist()]

    assert on_ranks(world_size, polls) == [[float(world_size)]] * world_size


def test_an_answer_may_start_a_thread_that_waits_for_the_other_ranks() -> None:
    def delegates(rank: int) -> float:
        tensor = torch.tensor([1.0])
        work = dist.all_reduce(tensor, async_op=True)
        thread = threading.Thread(target=work.wait)
        thread.start()
        thread.join()
        return tensor.item()

    assert on_ranks(2, delegates) == [2.0, 2.0]


def test_what_the_reference_does_is_told() -> None:
    assert told(global_token_mean, graph=True) == {
        f"{what} rank {rank}{more}": told_
        for rank in (0, 1)
        for what, more, told_ in (
            ("the result on", "", torch.tensor(2.5)),
            ("«the arguments on", " are unchanged»", True),
            ("«all asynchronous collectives of", " have been waited for»", True),
            ("«no tensor changes while", " reduces it»", True),
        )
    }


def test_what_an_answer_leaves_behind_is_told() -> None:
    def careless(loss_sum: torch.Tensor, token_count: torch.Tensor) -> torch.Tensor:
        token_count += 1
        return loss_sum / token_count

    seen = told(careless, graph=True)
    assert seen["«the arguments on rank 1 are unchanged»"] is False


@pytest.mark.parametrize("batches", [(1, 2, 3), ()])
def test_shards_are_told_process_by_process(batches: tuple[int, ...]) -> None:
    candidate = Candidate(LocalBackend(shard))
    reply = candidate.fixture(batches_of_ranks(2)).call(candidate, batches)
    assert isinstance(reply, Returned)
    assert reply.value["the batches of rank 0 of 2"] == batches[::2]
    assert reply.value["the number of batches of rank 1 of 2"] == len(batches[1::2])
    assert reply.value["«the list of batches is unchanged»"] is True
