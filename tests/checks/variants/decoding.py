"""Correct answers for lesson 11, written differently: the checks must accept all of them."""

import copy
import math
from collections import OrderedDict

import numpy as np
import torch

from course_lib.transformer import beam_search, causal_mask, evaluating, length_penalty


def penalty_by_torch(length, alpha):
    return torch.pow((5.0 + torch.as_tensor(length, dtype=torch.float64)) / 6.0, alpha)


def penalty_by_logarithms(length, alpha):
    length = torch.as_tensor(length, dtype=torch.float32)
    return torch.exp(alpha * (torch.log(5 + length) - math.log(6)))


def penalty_of_two_powers(length, alpha):
    return (length + 5) ** alpha / 6**alpha


def penalty_one_by_one(length, alpha):
    if isinstance(length, torch.Tensor):
        flat = [penalty_one_by_one(item, alpha) for item in length.flatten().tolist()]
        return torch.tensor(flat, dtype=torch.float64).reshape(length.shape)
    return math.pow(1 + (length - 1) / 6, alpha)


class _Beginning:
    """A prefix, its log-probability, and whether it is complete."""

    def __init__(self, ids, total=0.0, ended=False):
        self.ids, self.total, self.ended = ids, total, ended

    def score(self, alpha):
        return self.total / length_penalty(max(len(self.ids) - 1, 1), alpha)


def _continuations(model, memory, mask, beginnings, end_id):
    """Return the continuations of some prefixes after one step. Those that have ended are unchanged."""
    live = [beginning for beginning in beginnings if not beginning.ended]
    target = torch.tensor([beginning.ids for beginning in live], device=memory.device)
    count, length = target.shape
    hidden = model.decode(
        memory.expand(count, -1, -1),
        mask.expand(count, -1, -1),
        target,
        causal_mask(length).to(memory.device),
    )
    steps = torch.log_softmax(model.generator(hidden)[:, -1], dim=-1).tolist()
    found = [beginning for beginning in beginnings if beginning.ended]
    for beginning, step in zip(live, steps, strict=True):
        found += [
            _Beginning([*beginning.ids, word], beginning.total + cost, word == end_id)
            for word, cost in enumerate(step)
        ]
    return found


def _sentence_by_sentence(best_of):
    """Build a batch search from a function that finds the best ids for a single sentence."""

    def search(model, source, source_mask, beam, max_length, start_id, end_id, alpha):
        rows = []
        with evaluating(model):
            memories = model.encode(source, source_mask)
            for memory, mask in zip(memories.split(1), source_mask.split(1), strict=True):
                rows.append(best_of(model, memory, mask, beam, max_length, start_id, end_id, alpha))
        width = max(map(len, rows))
        return source.new_tensor([ids + [end_id] * (width - len(ids)) for ids in rows])

    return search


@_sentence_by_sentence
def beam_in_lists(model, memory, mask, beam, max_length, start_id, end_id, alpha):
    """Keep ended hypotheses in the beam, and stop when the most likely hypothesis has ended."""
    beginnings = [_Beginning([start_id])]
    for _ in range(max_length - 1):
        if beginnings[0].ended:
            break
        found = _continuations(model, memory, mask, beginnings, end_id)
        beginnings = sorted(found, key=lambda one: one.total, reverse=True)[:beam]
    return max(beginnings, key=lambda one: one.score(alpha)).ids


@_sentence_by_sentence
def beam_ranked_by_score(model, memory, mask, beam, max_length, start_id, end_id, alpha):
    """Rank hypotheses by score instead of probability, and continue until all have ended."""
    beginnings = [_Beginning([start_id])]
    for _ in range(max_length - 1):
        if all(one.ended for one in beginnings):
            break
        found = _continuations(model, memory, mask, beginnings, end_id)
        beginnings = sorted(found, key=lambda one: one.score(alpha), reverse=True)[:beam]
    return max(beginnings, key=lambda one: one.score(alpha)).ids


@_sentence_by_sentence
def beam_with_a_pool(model, memory, mask, beam, max_length, start_id, end_id, alpha):
    """Move ended hypotheses to a pool, which frees their places, and stop when the pool is full."""
    live, pool = [_Beginning([start_id])], []
    for _ in range(max_length - 1):
        found = _continuations(model, memory, mask, live, end_id)
        found.sort(key=lambda one: one.total, reverse=True)
        pool += [one for one in found[:beam] if one.ended]
        live = [one for one in found if not one.ended][:beam]
        if len(pool) >= beam:
            break
    return max(pool or live, key=lambda one: one.score(alpha)).ids


@_sentence_by_sentence
def beam_from_twice_as_many(model, memory, mask, beam, max_length, start_id, end_id, alpha):
    """Choose ended and open hypotheses from the best 2 * beam, as the paper's own program does."""
    live, pool = [_Beginning([start_id])], []
    for _ in range(max_length - 1):
        found = _continuations(model, memory, mask, live, end_id)
        best = sorted(found, key=lambda one: one.total, reverse=True)[: 2 * beam]
        pool = sorted(
            [*pool, *(one for one in best if one.ended)], key=lambda one: one.score(alpha), reverse=True
        )[:beam]
        live = [one for one in best if not one.ended][:beam]
        if not live:
            break
    return max(pool or live, key=lambda one: one.score(alpha)).ids


@_sentence_by_sentence
def beam_that_shrinks(model, memory, mask, beam, max_length, start_id, end_id, alpha):
    """Narrow the beam by one for each ended hypothesis, and stop when it is empty."""
    live, pool = [_Beginning([start_id])], []
    for _ in range(max_length - 1):
        if len(pool) >= beam:
            break
        found = _continuations(model, memory, mask, live, end_id)
        best = sorted(found, key=lambda one: one.total, reverse=True)[: beam - len(pool)]
        pool += [one for one in best if one.ended]
        live = [one for one in best if not one.ended]
        if not live:
            break
    return max(pool or live, key=lambda one: one.score(alpha)).ids


def beam_to_the_bitter_end(model, source, source_mask, beam, max_length, start_id, end_id, alpha):
    """Use one float32 tensor for the whole batch, always with max_length columns."""
    sentences, was_training = source.shape[0], {name: m.training for name, m in model.named_modules()}
    model.eval()
    with torch.inference_mode():
        rows = torch.arange(sentences, device=source.device).repeat_interleave(beam)
        memory, mask = model.encode(source, source_mask)[rows], source_mask[rows]
        ids = torch.full((sentences * beam, max_length), end_id, dtype=source.dtype, device=source.device)
        ids[:, 0] = start_id
        total = torch.tensor([0.0] + [-1e30] * (beam - 1), device=source.device).repeat(sentences)
        length = torch.zeros(sentences * beam, dtype=torch.int64, device=source.device)
        ended = torch.zeros(sentences * beam, dtype=torch.bool, device=source.device)
        first = torch.arange(0, sentences * beam, beam, device=source.device).unsqueeze(1)
        for column in range(1, max_length):
            hidden = model.decode(memory, mask, ids[:, :column], causal_mask(column).to(source.device))
            step = model.generator(hidden)[:, -1].float().log_softmax(-1)
            words = step.shape[-1]
            step[ended] = -1e30
            step[ended, end_id] = 0
            ranked = (total[:, None] + step).view(sentences, beam * words).sort(dim=1, descending=True)
            total = ranked.values[:, :beam].reshape(-1)
            parent = (first + torch.div(ranked.indices[:, :beam], words, rounding_mode="floor")).view(-1)
            ids = ids[parent]
            ids[:, column] = torch.remainder(ranked.indices[:, :beam], words).view(-1)
            length = torch.where(ended, length, column)[parent]
            ended = ended[parent] | (ids[:, column] == end_id)
        penalty = torch.tensor([length_penalty(int(one), alpha) for one in length], device=source.device)
        winner = first.squeeze(1) + (total / penalty).view(sentences, beam).argmax(dim=1)
    for name, module in model.named_modules():
        module.training = was_training[name]
    return ids[winner].clone()


def beam_of_the_reference(model, source, source_mask, beam, max_length, start_id, end_id, alpha):
    """Use the course's own search, with a copy of the mask, and copy its result."""
    ids = beam_search(model, source, source_mask.clone(), beam, max_length, start_id, end_id, alpha)
    return torch.cat([ids, ids[:, :0]], dim=1)


def _check(states):
    for state in states[1:]:
        if missing := [name for name in {**states[0], **state} if name not in states[0] or name not in state]:
            raise ValueError(f"not in every checkpoint: {missing}")
        for name, entry in state.items():
            if entry.shape != states[0][name].shape:
                raise ValueError(f"{name}: {states[0][name].shape} and {entry.shape}")


def penalty_in_numpy(length, alpha):
    return np.power((5.0 + length) / 6.0, alpha)


def penalty_as_a_new_tensor(length, alpha):
    return torch.pow((torch.tensor(length, dtype=torch.float64) + 5) / 6, alpha)


def average_stacked(state_dicts):
    _check(state_dicts)
    average = {}
    for name, first in state_dicts[0].items():
        if first.is_floating_point():
            stacked = torch.stack([state[name] for state in state_dicts])
            average[name] = stacked.to(torch.float64).mean(dim=0).to(first.dtype)
        else:
            average[name] = first.clone()
    return average


def average_on_the_run(state_dicts):
    average = OrderedDict()
    for number, state in enumerate(state_dicts, start=1):
        if number > 1 and state.keys() != average.keys():
            raise ValueError(f"checkpoint {number}: {sorted(state.keys() ^ average.keys())}")
        if any(state[name].shape != entry.shape for name, entry in average.items()):
            shapes = [(name, tuple(state[name].shape), list(entry.shape)) for name, entry in average.items()]
            raise ValueError(f"checkpoint {number}: {shapes}")
        for name, entry in state.items():
            if number == 1:
                average[name] = entry.double()
            average[name] = average[name] + (entry.double() - average[name]) / number
    last = state
    for name, entry in last.items():
        mean = average[name] if entry.dtype.is_floating_point else average[name].round()
        average[name] = mean.to(entry.dtype)
    return average


def average_of_shares(state_dicts):
    _check(state_dicts)
    average = copy.deepcopy(dict(state_dicts[-1]))
    for name, entry in average.items():
        if torch.is_floating_point(entry):
            entry.zero_()
            for state in state_dicts:
                entry.add_(state[name] / len(state_dicts))
    return average


def average_in_numpy(state_dicts):
    _check(state_dicts)
    average = {}
    for name, entry in state_dicts[0].items():
        if entry.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            numbers = [state[name].to(torch.float64).numpy() for state in state_dicts]
            average[name] = torch.as_tensor(sum(numbers) / len(numbers)).to(entry.dtype)
        else:
            average[name] = torch.clone(state_dicts[-1][name])
    return average


VARIANTS = {
    "length_penalty": (
        penalty_by_torch,
        penalty_by_logarithms,
        penalty_of_two_powers,
        penalty_one_by_one,
        penalty_in_numpy,
        penalty_as_a_new_tensor,
    ),
    "beam_search": (
        beam_in_lists,
        beam_ranked_by_score,
        beam_with_a_pool,
        beam_from_twice_as_many,
        beam_that_shrinks,
        beam_to_the_bitter_end,
        beam_of_the_reference,
    ),
    "average_checkpoints": (average_stacked, average_on_the_run, average_of_shares, average_in_numpy),
}
