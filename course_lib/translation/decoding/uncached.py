"""Decoding with the reference's own search, for any model that has `encode`, `decode` and `generator`.

A student's model may keep nothing for later steps and may be built of other parts, so every step computes the
whole beginning anew. Sentences of one length share a batch: then the search's one greatest length is right
for each of them.
"""

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from course_lib.transformer import beam_search, causal_mask, evaluating, greedy_decode, length_penalty
from course_lib.translation.decoding.hypothesis import Hypothesis, SearchSettings


def search_uncached(
    model: Any,
    source: Int[Tensor, "B S"],
    max_length: int,
    settings: SearchSettings,
    start_id: int,
    end_id: int,
) -> list[list[Hypothesis]]:
    """Translate sentences of one length, without padding: for each a list of the one best hypothesis.

    `max_length` counts the start. The reference's search hands back no second best: raises ValueError where
    `settings` ask for one.
    """
    if settings.n_best > 1:
        raise ValueError(
            "a model of a student's own parts gives the one best translation only: leave out n_best"
        )
    beam, alpha = settings.beam, settings.alpha
    mask = torch.ones(len(source), 1, source.shape[1], dtype=torch.bool, device=source.device)
    if beam == 1:
        target = greedy_decode(model, source, mask, max_length, start_id, end_id)
    else:
        target = beam_search(model, source, mask, beam, max_length, start_id, end_id, alpha)
    rows = [row[: row.index(end_id) + 1] if end_id in row else row for row in target[:, 1:].tolist()]
    return [
        [Hypothesis(ids, total, total / float(length_penalty(len(ids), alpha)))]
        for ids, total in zip(rows, _log_probabilities(model, source, mask, target, rows), strict=True)
    ]


def _log_probabilities(
    model: Any, source: Tensor, mask: Tensor, target: Tensor, rows: list[list[int]]
) -> list[float]:
    """Ask the model for the log-probability of each row, up to where it ends."""
    if target.shape[1] < 2:
        return [0.0] * len(rows)
    with evaluating(model):
        read = target[:, :-1]
        causal = causal_mask(read.shape[1]).to(target.device)
        hidden = model.decode(model.encode(source, mask), mask, read, causal)
        logits = model.generator(hidden)
        steps = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    chosen = steps.gather(2, target[:, 1:].unsqueeze(-1)).squeeze(-1)
    lengths = torch.tensor([len(ids) for ids in rows], device=target.device).unsqueeze(1)
    written = torch.arange(chosen.shape[1], device=target.device) < lengths
    return (chosen.double() * written).sum(dim=1).tolist()
