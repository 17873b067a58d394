"""Checkpoint averaging: section 6.1 of "Attention Is All You Need"."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor


def average_checkpoints(state_dicts: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the average of several state dicts, entry by entry.

    Floating-point entries are averaged in float64 and returned in their own dtype; others, such as counters,
    are copied from the last state dict. The result shares no memory with the inputs. Raises ValueError if
    some entries are not in every state dict (the message names them), or if an entry doesn't have the same
    shape in all of them (the message contains both shapes).
    """
    states = list(state_dicts)
    if not states:
        raise ValueError("expected at least one checkpoint to average, got none")
    names = states[0].keys()
    for number, state in enumerate(states[1:], start=2):
        if different := sorted(names ^ state.keys()):
            raise ValueError(
                f"checkpoint {number} and the first checkpoint have different entries: {', '.join(different)}"
            )
        for name in names:
            if state[name].shape != states[0][name].shape:
                shape, first = tuple(state[name].shape), tuple(states[0][name].shape)
                raise ValueError(
                    f"checkpoint {number}: {name} has shape {shape}, but {first} in the first checkpoint"
                )
    average: dict[str, Tensor] = {}
    for name in names:
        entries = [state[name].detach() for state in states]
        last = entries[-1]
        if last.is_floating_point():
            # Converting all state dicts to float64 at once would take several times the memory of the model.
            total = torch.zeros_like(last, dtype=torch.float64)
            for entry in entries:
                total += entry
            average[name] = (total / len(entries)).to(last.dtype)
        else:
            average[name] = last.clone()
    return average
