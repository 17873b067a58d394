"""Wrong answers for lesson 11 that match no known misconception: the checks must not name one."""

import torch

from course_lib.transformer import average_checkpoints, beam_search, greedy_decode


def _search(change):
    def search(model, source, source_mask, beam, max_length, start_id, end_id, alpha):
        return change(beam_search(model, source, source_mask, beam, max_length, start_id, end_id, alpha))

    return search


def _with(**other):
    def search(model, source, source_mask, beam, max_length, start_id, end_id, alpha):
        settings = {"beam": beam, "max_length": max_length, "alpha": alpha} | other
        return beam_search(model, source, source_mask, start_id=start_id, end_id=end_id, **settings)

    return search


def _half_the_beam(model, source, source_mask, beam, max_length, start_id, end_id, alpha):
    return beam_search(model, source, source_mask, (beam + 1) // 2, max_length, start_id, end_id, alpha)


def _greedy_when_narrow(model, source, source_mask, beam, max_length, start_id, end_id, alpha):
    if beam < 3:
        return greedy_decode(model, source, source_mask, max_length, start_id, end_id)
    return beam_search(model, source, source_mask, beam, max_length, start_id, end_id, alpha)


def _average(change):
    def average(state_dicts):
        return {name: change(entry) for name, entry in average_checkpoints(state_dicts).items()}

    return average


def _median(state_dicts):
    return {
        name: torch.stack([state[name] for state in state_dicts]).float().quantile(0.5, dim=0).to(entry.dtype)
        for name, entry in state_dicts[0].items()
    }


UNRELATED = {
    "length_penalty": (
        lambda length, alpha: 1.0,
        lambda length, alpha: ((5 + length) / 6) ** (alpha + 1),
        lambda length, alpha: "long",
        lambda length, alpha: [((5 + length) / 6) ** alpha],
        lambda length: length,
        0.6,
    ),
    "beam_search": (
        lambda *arguments: None,
        lambda model, source, *rest: source,
        lambda model, source: source,
        _search(lambda ids: ids.double()),
        _search(lambda ids: ids.flip(0)),
        _search(lambda ids: ids + 1),
        _search(lambda ids: (ids, None)),
        _with(alpha=3.0),
        _with(beam=5),
        _with(max_length=5),
        _half_the_beam,
        _greedy_when_narrow,
    ),
    "average_checkpoints": (
        lambda state_dicts: {},
        lambda state_dicts: list(average_checkpoints(state_dicts).values()),
        _average(lambda entry: -entry if entry.is_floating_point() else entry),
        _average(lambda entry: entry.tolist()),
        _average(lambda entry: entry.unsqueeze(0)),
        _average(lambda entry: entry.half() if entry.is_floating_point() else entry),
        _median,
        lambda first, second: average_checkpoints([first, second]),
    ),
}
