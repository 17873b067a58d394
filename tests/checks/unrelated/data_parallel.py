"""Lesson 12, wrong answers that are none of the known misconceptions: nothing may be named for them."""

import torch
import torch.distributed as dist

from course_lib.transformer.data_parallel import global_token_mean, shard


def _loud(*arguments):
    raise ValueError("no")


def _sorted(batches, rank, world_size):
    return sorted(batches, key=str)[rank::world_size][:2]


def _sizes(batches, rank, world_size):
    return [len(str(batch)) for batch in batches[rank::world_size]]


def _first_missing(batches, rank, world_size):
    return shard(batches, rank, world_size)[1:]


def _of_the_next(batches, rank, world_size):
    return shard(batches, (rank + 1) % world_size, world_size)


def _snake(batches, rank, world_size):
    mine = []
    for first in range(0, len(batches), world_size):
        hand = list(batches[first : first + world_size])
        hand += [None] * (world_size - len(hand))
        mine.append((hand if (first // world_size) % 2 == 0 else hand[::-1])[rank])
    return [batch for batch in mine if batch is not None]


def _strict(batches, rank, world_size):
    if len(batches) % world_size:
        raise ValueError("that does not come out even")
    return batches[rank::world_size]


def _forgets_to_wait_for_all(loss_sum, token_count):
    mean = global_token_mean(loss_sum, token_count) if not dist.is_initialized() else None
    if mean is None and dist.get_rank() == 0:
        totals = torch.stack([loss_sum.detach().double(), token_count.double()])
        dist.all_reduce(totals)
        mean = (totals[0] / totals[1]).to(loss_sum.dtype)
    return loss_sum / token_count if mean is None else mean


def _perplexity(loss_sum, token_count):
    return global_token_mean(loss_sum, token_count).exp()


def _in_bits(loss_sum, token_count):
    return global_token_mean(loss_sum, token_count) / 0.6931


def _one_token_less(loss_sum, token_count):
    return global_token_mean(loss_sum, token_count - 1)


def _vector(loss_sum, token_count):
    return global_token_mean(loss_sum, token_count).reshape(1)


def _both(loss_sum, token_count):
    return global_token_mean(loss_sum, token_count), token_count


def _root(loss_sum, token_count):
    return global_token_mean(loss_sum, token_count.double().sqrt())


def _twice(loss_sum, token_count):
    once = global_token_mean(loss_sum, token_count)
    return global_token_mean(once, token_count)


def _empties(loss_sum, token_count):
    mean = global_token_mean(loss_sum, token_count)
    with torch.no_grad():
        loss_sum.zero_()
    return mean


UNRELATED = {
    "shard": (
        _loud,
        _sorted,
        _sizes,
        _first_missing,
        _of_the_next,
        _snake,
        _strict,
        lambda batches, rank: batches,
        lambda batches, rank, world_size: None,
        [1, 2],
    ),
    "global_token_mean": (
        _loud,
        _forgets_to_wait_for_all,
        _perplexity,
        _in_bits,
        _one_token_less,
        _vector,
        _both,
        _root,
        _twice,
        _empties,
        lambda loss_sum: loss_sum,
        lambda loss_sum, token_count: torch.tensor(0.0),
        2.5,
    ),
}
