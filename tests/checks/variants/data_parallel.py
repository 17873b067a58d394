"""Lesson 12, right answers written differently: the checks have to accept all of them."""

import warnings

import torch
import torch.distributed as dist


def shard_by_loop(batches, rank, world_size):
    """Goes through all batches and keeps those whose turn it is."""
    mine = []
    for number, batch in enumerate(batches):
        if number % world_size == rank:
            mine.append(batch)
    return mine


def shard_by_range(batches, rank, world_size):
    """Names the places."""
    return tuple(batches[place] for place in range(rank, len(batches), world_size))


def shard_by_dealing(batches, rank, world_size):
    """Deals to all processes, as a person would."""
    hands = [[] for _ in range(world_size)]
    turn = 0
    for batch in batches:
        hands[turn].append(batch)
        turn = 0 if turn == world_size - 1 else turn + 1
    return hands[rank]


def shard_by_rounds(batches, rank, world_size):
    """Takes one batch of each round."""
    rounds = [batches[first : first + world_size] for first in range(0, len(batches), world_size)]
    return [one[rank] for one in rounds if rank < len(one)]


def shard_by_slice(batches, rank, world_size):
    return list(batches)[slice(rank, None, world_size)]


def shard_by_popping(batches, rank, world_size):
    """Works on a copy that it uses up."""
    left, mine = list(batches), []
    while left:
        taken, left = left[:world_size], left[world_size:]
        mine += taken[rank : rank + 1]
    return mine


def mean_by_two_reductions(loss_sum, token_count):
    """Adds up one after the other."""
    total = loss_sum.detach().clone().to(torch.float64)
    count = token_count.detach().clone().to(torch.float64)
    if dist.is_initialized():
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        dist.all_reduce(count, op=dist.ReduceOp.SUM)
    return (total / count).to(loss_sum.dtype)


def mean_by_gathering(loss_sum, token_count):
    """Collects what all have, and adds up itself."""
    mine = torch.tensor([float(loss_sum), float(token_count)], dtype=torch.float64)
    if not dist.is_initialized():
        parts = [mine]
    else:
        parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, mine)
    total, count = torch.stack(parts).sum(dim=0)
    return (total / count).type(loss_sum.dtype)


def mean_by_objects(loss_sum, token_count):
    """Sends plain numbers."""
    parts = [(loss_sum.item(), token_count.item())]
    if dist.is_initialized():
        parts = [None] * dist.get_world_size()
        dist.all_gather_object(parts, (loss_sum.item(), token_count.item()))
    mean = sum(part for part, _ in parts) / sum(count for _, count in parts)
    return torch.tensor(mean, dtype=loss_sum.dtype, device=loss_sum.device)


def mean_of_averages(loss_sum, token_count):
    """Averages both over the processes: their number cancels out."""
    pair = torch.stack((loss_sum, token_count)).double() if loss_sum.dtype == token_count.dtype else None
    if pair is None:
        pair = torch.stack((loss_sum.double(), token_count.double()))
    pair = pair.detach()
    if dist.is_initialized():
        dist.all_reduce(pair, op=dist.ReduceOp.AVG)
    return pair[0].div(pair[1]).to(loss_sum)


@torch.no_grad()
def mean_without_gradients(loss_sum, token_count):
    """Leaves the graph behind with a decorator, and waits for the sum itself."""
    totals = torch.tensor([loss_sum, token_count], dtype=torch.float64)
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(totals, async_op=True).wait()
    loss, count = totals.unbind()
    return loss.divide(count).to(loss_sum.dtype)


def mean_by_one_who_tells(loss_sum, token_count):
    """Process 0 adds up and divides, and tells the others."""
    totals = torch.stack([loss_sum.detach().double(), token_count.double()])
    if not dist.is_initialized():
        return (totals[0] / totals[1]).to(loss_sum.dtype)
    dist.reduce(totals, dst=0)
    mean = totals[0] / totals[1]
    dist.broadcast(mean, src=0)
    return mean.to(loss_sum.dtype)


def mean_in_one_tensor(loss_sum, token_count):
    """Gathers into one tensor, whatever that is called in this version of torch."""
    mine = torch.stack([loss_sum.detach().double(), token_count.double()])
    if dist.is_initialized():
        everything = torch.empty(2 * dist.get_world_size(), dtype=torch.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dist.all_gather_into_tensor(everything, mine)
        mine = everything.view(-1, 2).sum(dim=0)
    return (mine[0] / mine[1]).to(loss_sum.dtype)


def mean_by_shares(loss_sum, token_count):
    """Weighs each process's mean by its share of the tokens; a process without tokens has none."""
    count = token_count.detach().double()
    total = count.clone()
    if dist.is_initialized():
        dist.all_reduce(total)
    share = count / total
    mean = (loss_sum.detach().double() / count).nan_to_num() * share
    if dist.is_initialized():
        dist.all_reduce(mean)
    return mean.to(loss_sum.dtype)


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
}
