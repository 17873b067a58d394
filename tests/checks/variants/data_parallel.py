"""Correct answers for lesson 12, written differently: the checks must accept all of them."""

import contextlib
import functools
import warnings

import torch
import torch.distributed as dist
from torch import nn


def shard_by_loop(batches, rank, world_size):
    """Loop over all batches, and keep those of this rank."""
    mine = []
    for number, batch in enumerate(batches):
        if number % world_size == rank:
            mine.append(batch)
    return mine


def shard_by_range(batches, rank, world_size):
    """Select the batches by their indices."""
    return tuple(batches[place] for place in range(rank, len(batches), world_size))


def shard_by_dealing(batches, rank, world_size):
    """Deal the batches to all ranks, as a person would."""
    hands = [[] for _ in range(world_size)]
    turn = 0
    for batch in batches:
        hands[turn].append(batch)
        turn = 0 if turn == world_size - 1 else turn + 1
    return hands[rank]


def shard_by_rounds(batches, rank, world_size):
    """Take one batch of each round."""
    rounds = [batches[first : first + world_size] for first in range(0, len(batches), world_size)]
    return [one[rank] for one in rounds if rank < len(one)]


def shard_by_slice(batches, rank, world_size):
    return list(batches)[slice(rank, None, world_size)]


def shard_by_popping(batches, rank, world_size):
    """Remove batches from a copy until it is empty."""
    left, mine = list(batches), []
    while left:
        taken, left = left[:world_size], left[world_size:]
        mine += taken[rank : rank + 1]
    return mine


def of_numbers_too(mean):
    """Convert plain numbers to tensors."""

    @functools.wraps(mean)
    def convert(loss_sum, token_count):
        return mean(torch.as_tensor(loss_sum), torch.as_tensor(token_count))

    return convert


@of_numbers_too
def mean_by_two_reductions(loss_sum, token_count):
    """Sum the losses and the counts in two all-reduces."""
    total = loss_sum.detach().clone().to(torch.float64)
    count = token_count.detach().clone().to(torch.float64)
    if dist.is_initialized():
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        dist.all_reduce(count, op=dist.ReduceOp.SUM)
    return (total / count).to(loss_sum.dtype)


@of_numbers_too
def mean_by_gathering(loss_sum, token_count):
    """Gather the values of all ranks, and sum them locally."""
    mine = torch.tensor([float(loss_sum), float(token_count)], dtype=torch.float64)
    if not dist.is_initialized():
        parts = [mine]
    else:
        parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, mine)
    total, count = torch.stack(parts).sum(dim=0)
    return (total / count).type(loss_sum.dtype)


@of_numbers_too
def mean_by_objects(loss_sum, token_count):
    """Send plain numbers."""
    parts = [(loss_sum.item(), token_count.item())]
    if dist.is_initialized():
        parts = [None] * dist.get_world_size()
        dist.all_gather_object(parts, (loss_sum.item(), token_count.item()))
    mean = sum(part for part, _ in parts) / sum(count for _, count in parts)
    return torch.tensor(mean, dtype=loss_sum.dtype, device=loss_sum.device)


@of_numbers_too
def mean_of_averages(loss_sum, token_count):
    """Average both values over the ranks, whose number cancels out."""
    pair = torch.stack((loss_sum, token_count)).double() if loss_sum.dtype == token_count.dtype else None
    if pair is None:
        pair = torch.stack((loss_sum.double(), token_count.double()))
    pair = pair.detach()
    if dist.is_initialized():
        dist.all_reduce(pair, op=dist.ReduceOp.AVG)
    return pair[0].div(pair[1]).to(loss_sum)


@of_numbers_too
@torch.no_grad()
def mean_without_gradients(loss_sum, token_count):
    """Disable gradients with a decorator, and wait for the sum explicitly."""
    totals = torch.tensor([loss_sum, token_count], dtype=torch.float64)
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(totals, async_op=True).wait()
    loss, count = totals.unbind()
    return loss.divide(count).to(loss_sum.dtype)


@of_numbers_too
def mean_by_one_who_tells(loss_sum, token_count):
    """Sum and divide on rank 0, and broadcast the result."""
    totals = torch.stack([loss_sum.detach().double(), token_count.double()])
    if not dist.is_initialized():
        return (totals[0] / totals[1]).to(loss_sum.dtype)
    dist.reduce(totals, dst=0)
    mean = totals[0] / totals[1]
    dist.broadcast(mean, src=0)
    return mean.to(loss_sum.dtype)


@of_numbers_too
def mean_in_one_tensor(loss_sum, token_count):
    """Gather into one tensor, with whichever function this version of torch has."""
    mine = torch.stack([loss_sum.detach().double(), token_count.double()])
    if dist.is_initialized():
        everything = torch.empty(2 * dist.get_world_size(), dtype=torch.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dist.all_gather_into_tensor(everything, mine)
        mine = everything.view(-1, 2).sum(dim=0)
    return (mine[0] / mine[1]).to(loss_sum.dtype)


@of_numbers_too
def mean_by_shares(loss_sum, token_count):
    """Weight each rank's mean by its share of the tokens. A rank without tokens has no mean."""
    count = token_count.detach().double()
    total = count.clone()
    if dist.is_initialized():
        dist.all_reduce(total)
    share = count / total
    mean = (loss_sum.detach().double() / count).nan_to_num() * share
    if dist.is_initialized():
        dist.all_reduce(mean)
    return mean.to(loss_sum.dtype)


def broadcast_by_data(model, source=0):
    if not dist.is_available() or not dist.is_initialized():
        return model
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=source)
    for buffer in model.buffers():
        dist.broadcast(buffer, src=source)
    return model


@torch.no_grad()
def broadcast_flat(model, source=0):
    """Send one message for each dtype."""
    if not dist.is_initialized():
        return
    tensors = [*model.parameters(), *model.buffers()]
    for dtype in sorted({tensor.dtype for tensor in tensors}, key=str):
        alike = [tensor for tensor in tensors if tensor.dtype == dtype]
        flat = torch.cat([tensor.flatten() for tensor in alike])
        dist.broadcast(flat, source)
        for tensor, part in zip(alike, flat.split([one.numel() for one in alike]), strict=True):
            tensor.copy_(part.view_as(tensor))


def broadcast_asynchronously(model, source=0):
    if dist.is_initialized():
        tensors = (*model.parameters(), *model.buffers())
        works = [dist.broadcast(one.detach(), source, async_op=True) for one in tensors]
        for work in works:
            work.wait()


def broadcast_by_adding(model, source=0):
    """Add zeros on all ranks except the source."""
    if not dist.is_initialized():
        return
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if dist.get_rank() != source:
                tensor.zero_()
            dist.all_reduce(tensor)


def broadcast_objects(model, source=0):
    """Send one pickled list of tensors."""
    if dist.is_initialized():
        tensors = [*model.parameters(), *model.buffers()]
        message = [[tensor.detach() for tensor in tensors]]
        dist.broadcast_object_list(message, src=source)
        with torch.no_grad():
            for tensor, value in zip(tensors, message[0], strict=True):
                tensor.copy_(value)


def reduce_and_assign(model):
    if dist.is_initialized():
        for parameter in [one for one in model.parameters() if one.requires_grad]:
            total = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
            dist.all_reduce(total, op=dist.ReduceOp.SUM)
            parameter.grad = total


@torch.no_grad()
def reduce_flat(model):
    """Reduce one message for each dtype."""
    if not dist.is_initialized():
        return
    groups = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            groups.setdefault(parameter.dtype, []).append(parameter)
    for group in groups.values():
        for parameter in group:
            if parameter.grad is None:
                parameter.grad = parameter.new_zeros(parameter.shape)
        flat = torch.cat([parameter.grad.view(-1) for parameter in group])
        dist.all_reduce(flat)
        for parameter, part in zip(group, flat.split([one.numel() for one in group]), strict=True):
            parameter.grad.copy_(part.view_as(parameter))


def reduce_asynchronously(model):
    if not dist.is_initialized():
        return
    works = []
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)  # a frozen one as well
        works.append(dist.all_reduce(parameter.grad, async_op=True))
    for work in works:
        work.wait()


def reduce_by_gathering(model):
    if not dist.is_initialized():
        return
    for parameter in reversed(list(model.parameters())):
        if parameter.requires_grad:
            mine = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
            dist.all_gather(parts, mine)
            parameter.grad = sum(parts)


class BucketsByNumber(nn.Module):
    """Buckets that know the bucket of each parameter and count the missing gradients."""

    def __init__(self, model, bucket_bytes):
        super().__init__()
        self.on = True
        self.plan = []
        used = 0
        for parameter in list(model.parameters())[::-1]:
            if not parameter.requires_grad:
                continue
            size = parameter.numel() * parameter.element_size()
            if not self.plan or used + size > bucket_bytes or self.plan[-1][0].dtype != parameter.dtype:
                self.plan.append([])
                used = 0
            used += size
            self.plan[-1].append(parameter)
            number = len(self.plan) - 1
            parameter.register_post_accumulate_grad_hook(functools.partial(self._arrived, number))
        self._begin()

    def _begin(self):
        self.missing = [len(bucket) for bucket in self.plan]
        self.jobs = []

    def _arrived(self, number, _):
        if self.on and dist.is_initialized():
            self.missing[number] -= 1
            while len(self.jobs) < len(self.plan) and self.missing[len(self.jobs)] == 0:
                self._send()

    def _send(self):
        bucket = self.plan[len(self.jobs)]
        message = torch.zeros(sum(one.numel() for one in bucket), dtype=bucket[0].dtype)
        first = 0
        for parameter in bucket:
            if parameter.grad is not None:
                message[first : first + parameter.numel()] = parameter.grad.view(-1)
            first += parameter.numel()
        self.jobs.append((dist.all_reduce(message, async_op=True), message))

    @torch.no_grad()
    def finish(self):
        while dist.is_initialized() and len(self.jobs) < len(self.plan):
            self._send()
        for bucket, (job, message) in zip(self.plan, self.jobs, strict=False):
            job.wait()
            first = 0
            for parameter in bucket:
                part = message[first : first + parameter.numel()].view_as(parameter)
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                parameter.grad.copy_(part)
                first += parameter.numel()
        self._begin()

    @contextlib.contextmanager
    def no_sync(self):
        self.on = False
        try:
            yield self
        finally:
            self.on = True


class BucketsWithFrozen(BucketsByNumber):
    """Buckets that also hold frozen parameters, for which zeros are sent in the end."""

    def __init__(self, model, bucket_bytes):
        super().__init__(model, bucket_bytes)
        self.plan += [[one] for one in model.parameters() if not one.requires_grad]
        self._begin()


class BucketsWithFutures(BucketsByNumber):
    """Buckets that wait for futures."""

    def _send(self):
        super()._send()
        work, message = self.jobs[-1]
        self.jobs[-1] = (work, message)

    def finish(self):
        while dist.is_initialized() and len(self.jobs) < len(self.plan):
            self._send()
        for work, _ in self.jobs:
            work.get_future().wait()
        super().finish()


class _Pause:
    def __init__(self, owner):
        self.owner = owner

    def __enter__(self):
        self.owner.on = False

    def __exit__(self, *_):
        self.owner.on = True


class BucketsWithAPause(BucketsByNumber):
    """Buckets whose context manager is a class."""

    def no_sync(self):
        return _Pause(self)


class BucketsOfNames(BucketsByNumber):
    """Buckets of named parameters that check whether a collective has finished before waiting for it."""

    def finish(self):
        while dist.is_initialized() and len(self.jobs) < len(self.plan):
            self._send()
        for work, _ in self.jobs:
            if not work.is_completed():
                work.wait()
        super().finish()


class ShardedByHeap:
    """A sharded optimizer that assigns the largest parameters first."""

    def __init__(self, parameters, make_optimizer):
        self.everything = [*parameters]
        ready = dist.is_initialized()
        self.world = dist.get_world_size() if ready else 1
        self.me = dist.get_rank() if ready else 0
        self.shares = [[] for _ in range(self.world)]
        for parameter in sorted(self.everything, key=torch.numel, reverse=True):
            min(self.shares, key=lambda share: sum(map(torch.numel, share))).append(parameter)
        self.inner = make_optimizer(self.shares[self.me]) if self.shares[self.me] else None

    def step(self):
        if self.inner:
            self.inner.step()
        if self.world > 1:
            works = [
                dist.broadcast(parameter.data, src=owner, async_op=True)
                for owner, share in enumerate(self.shares)
                for parameter in share
            ]
            for work in works:
                work.wait()

    def zero_grad(self):
        for parameter in self.everything:
            if parameter.grad is not None:
                parameter.grad.zero_()

    def state_dict(self):
        return self.inner.state_dict() if self.inner else {"state": {}, "param_groups": []}


class ShardedByChanges(ShardedByHeap):
    """A sharded optimizer that adds the owners' changes, which may round differently from their updates."""

    @torch.no_grad()
    def step(self):
        before = [parameter.detach().clone() for parameter in self.everything]
        if self.inner:
            self.inner.step()
        own = {id(parameter) for parameter in self.shares[self.me]}
        for parameter, old in zip(self.everything, before, strict=True) if self.world > 1 else ():
            change = parameter - old
            dist.all_reduce(change)
            if id(parameter) not in own:
                parameter.copy_(old + change)


class ShardedByObjects(ShardedByHeap):
    """A sharded optimizer that sends the shares as objects."""

    @torch.no_grad()
    def step(self):
        if self.inner:
            self.inner.step()
        if self.world == 1:
            return
        shares = [None] * self.world
        dist.all_gather_object(shares, [parameter.detach() for parameter in self.shares[self.me]])
        for share, values in zip(self.shares, shares, strict=True):
            for parameter, value in zip(share, values, strict=True):
                parameter.copy_(value)


class ShardedByAdding(ShardedByHeap):
    """A sharded optimizer that sends values by adding zeros."""

    @torch.no_grad()
    def step(self):
        if self.inner:
            self.inner.step()
        if self.world > 1:
            for owner, share in enumerate(self.shares):
                for parameter in share:
                    total = parameter.clone() if owner == self.me else torch.zeros_like(parameter)
                    dist.all_reduce(total)
                    parameter.copy_(total)


class ShardedWithoutNone(ShardedByHeap):
    """A sharded optimizer that clears gradients with None, and returns an empty dict for an empty share."""

    def zero_grad(self, set_to_none=True):
        for parameter in self.everything:
            parameter.grad = None

    def state_dict(self):
        return {} if self.inner is None else {"rank": self.me, "inner": self.inner.state_dict()}


VARIANTS = {
    "shard": (
        shard_by_loop,
        shard_by_range,
        shard_by_dealing,
        shard_by_rounds,
        shard_by_slice,
        shard_by_popping,
    ),
    "global_token_mean": (
        mean_by_two_reductions,
        mean_by_gathering,
        mean_by_objects,
        mean_of_averages,
        mean_without_gradients,
        mean_by_one_who_tells,
        mean_in_one_tensor,
        mean_by_shares,
    ),
    "broadcast_parameters": (
        broadcast_by_data,
        broadcast_flat,
        broadcast_asynchronously,
        broadcast_by_adding,
        broadcast_objects,
    ),
    "all_reduce_gradients": (reduce_and_assign, reduce_flat, reduce_asynchronously, reduce_by_gathering),
    "GradientBuckets": (
        BucketsByNumber,
        BucketsWithFrozen,
        BucketsWithFutures,
        BucketsWithAPause,
        BucketsOfNames,
    ),
    "ShardedOptimizer": (
        ShardedByHeap,
        ShardedByChanges,
        ShardedByObjects,
        ShardedByAdding,
        ShardedWithoutNone,
    ),
}
