"""Wrong answers for lesson 12 that match no known misconception: the checks must not name one."""

import torch
import torch.distributed as dist

from course_lib.transformer.data_parallel import global_token_mean, shard
from course_lib.transformer.gradient_buckets import GradientBuckets
from course_lib.transformer.replicas import all_reduce_gradients, broadcast_parameters
from course_lib.transformer.sharded_optimizer import ShardedOptimizer


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


def _halved(model, source=0):
    broadcast_parameters(model, source)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter /= 2


def _transposed(model, source=0):
    broadcast_parameters(model, source)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.flip(0))


def _zeroed(model, source=0):
    for parameter in model.parameters():
        parameter.data.zero_()


def _noisy(model, source=0):
    broadcast_parameters(model, source)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.001)


def _first_tensor_only(model, source=0):
    if dist.is_initialized():
        dist.broadcast(next(model.parameters()).detach(), source)


def _next_rank(model, source=0):
    broadcast_parameters(model, (source + 1) % dist.get_world_size() if dist.is_initialized() else 0)


def _negated(model):
    all_reduce_gradients(model)
    for parameter in model.parameters():
        parameter.grad = parameter.grad and -parameter.grad if parameter.grad is None else -parameter.grad


def _clipped(model):
    all_reduce_gradients(model)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def _half_the_sum(model):
    all_reduce_gradients(model)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= 3


def _sign(model):
    all_reduce_gradients(model)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.sign_()


def _one_more(model):
    all_reduce_gradients(model)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad += 1


def _only_the_first_parameter(model):
    if dist.is_initialized():
        dist.all_reduce(next(model.parameters()).grad)


class _Shifted(GradientBuckets):
    def finish(self):
        super().finish()
        for bucket in self.buckets:
            for parameter in bucket:
                parameter.grad = None if parameter.grad is None else parameter.grad + 1


class _Rolled(GradientBuckets):
    def finish(self):
        super().finish()
        for bucket in self.buckets:
            for parameter in bucket:
                parameter.grad = None if parameter.grad is None else parameter.grad.roll(1)


class _Emptied(GradientBuckets):
    def finish(self):
        super().finish()
        for bucket in self.buckets:
            for parameter in bucket:
                parameter.grad = torch.zeros_like(parameter)


class _Thirds(GradientBuckets):
    def finish(self):
        super().finish()
        for bucket in self.buckets:
            for parameter in bucket:
                parameter.grad = parameter.grad / 3


class _Scheduled(ShardedOptimizer):
    def step(self):
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.neg_()
        super().step()


class _Decays(ShardedOptimizer):
    def step(self):
        super().step()
        with torch.no_grad():
            for parameter in self.parameters:
                parameter.mul_(0.9)


class _StepsTwice(ShardedOptimizer):
    def step(self):
        super().step()
        super().step()


class _NeverSteps(ShardedOptimizer):
    def step(self):
        pass


class _Rounds(ShardedOptimizer):
    def step(self):
        super().step()
        with torch.no_grad():
            for parameter in self.parameters:
                parameter.round_()


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
    "broadcast_parameters": (
        _loud,
        _halved,
        _transposed,
        _zeroed,
        _noisy,
        _first_tensor_only,
        _next_rank,
        lambda model: None if model is None else model.undefined,
        3,
    ),
    "all_reduce_gradients": (
        _loud,
        _negated,
        _clipped,
        _half_the_sum,
        _sign,
        _one_more,
        _only_the_first_parameter,
        lambda: None,
    ),
    "GradientBuckets": (_loud, _Shifted, _Rolled, _Emptied, _Thirds, lambda model, bucket_bytes: None, 4.0),
    "ShardedOptimizer": (
        _loud,
        _Scheduled,
        _Decays,
        _StepsTwice,
        _NeverSteps,
        _Rounds,
        lambda parameters, make_optimizer: None,
    ),
}
