"""Greedy decoding, and beam search as in section 6.1 of the paper.

Both functions use only the model's `encode`, `decode` and `generator`, so they recompute the whole prefix for
each token.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from course_lib.transformer.masks import causal_mask
from course_lib.transformer.model import Transformer


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Within the block, put a model in evaluation mode and disable gradients.

    Afterwards, the mode of every module is restored.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def greedy_decode(
    model: Transformer,
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "..."],
    max_length: int,
    start_id: int,
    end_id: int,
) -> Int[Tensor, "B T"]:
    """Translate a batch by appending the most likely next token to each translation at every step.

    This is the "auto-regressive" generation of section 3. Each row of the result begins with `start_id`.
    After its first `end_id`, a row is filled with `end_id`. Decoding stops when every row has ended, or at
    `max_length` tokens including the start. The source is encoded once for the whole batch. The model is used
    in evaluation mode and without gradients. Afterwards, its previous mode is restored.
    """
    with evaluating(model):
        memory = model.encode(source, source_mask)
        target = source.new_full((source.shape[0], 1), start_id)
        ended = torch.zeros_like(target[:, 0], dtype=torch.bool)
        while target.shape[1] < max_length and not ended.all():
            mask = causal_mask(target.shape[1]).to(target.device)
            hidden = model.decode(memory, source_mask, target, mask)
            token = model.generator(hidden[:, -1]).argmax(dim=-1).masked_fill(ended, end_id)
            target = torch.cat([target, token.unsqueeze(1)], dim=1)
            ended = ended | (token == end_id)
    return target


def length_penalty(length: int | Tensor, alpha: float) -> float | Tensor:
    """Return the number by which the log-probability of a translation of `length` tokens is divided.

    This is ((5 + length) / 6)^alpha: equation 14 of Wu et al. 2016 (arXiv 1609.08144), as cited in section
    6.1. For a tensor of integers, return a tensor of the same shape with the penalty of each length.
    """
    return ((5 + length) / 6) ** alpha


def beam_search(
    model: Transformer,
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "#B 1 #S"],
    beam: int,
    max_length: int,
    start_id: int,
    end_id: int,
    alpha: float,
) -> Int[Tensor, "B T"]:
    """Keep the `beam` most likely prefixes of each sentence at every step, and return the best hypothesis.

    This is the beam search of section 6.1. The source is encoded once for the whole batch. The best
    hypothesis has the highest log-probability divided by length_penalty(length, alpha), where the length
    counts the tokens after the start, including the end. The rows are formatted like those of
    `greedy_decode`. As there, the model is used in evaluation mode and without gradients, and its previous
    mode is restored afterwards. The model and the source may be on any device.
    """
    sentences = source.shape[0]
    with evaluating(model):
        memory = model.encode(source, source_mask).repeat_interleave(beam, dim=0)
        # A mask of shape (1, 1, S) serves all sentences, so expand it to one row for each sentence.
        source_mask = source_mask.expand(sentences, -1, -1).repeat_interleave(beam, dim=0)
        target = source.new_full((sentences, beam, 1), start_id)
        # In 16 bits, sums of log-probabilities and large lengths would be rounded too coarsely.
        exact = torch.promote_types(memory.dtype, torch.float32)
        total = torch.full((sentences, beam), -torch.inf, device=source.device, dtype=exact)
        # All beams of a sentence start with the same prefix. Extend only the first: otherwise, they would all
        # stay the same.
        total[:, 0] = 0.0
        ended = torch.zeros_like(total, dtype=torch.bool)
        length = torch.zeros_like(total)

        while target.shape[2] < max_length and not ended.all():
            mask = causal_mask(target.shape[2]).to(target.device)
            hidden = model.decode(memory, source_mask, target.flatten(0, 1), mask)
            log_probs = model.generator(hidden[:, -1]).log_softmax(dim=-1).unflatten(0, (sentences, beam))
            # A finished hypothesis is extended by the end token at no cost.
            log_probs = log_probs.masked_fill(ended.unsqueeze(-1), -torch.inf)
            log_probs[..., end_id] = log_probs[..., end_id].masked_fill(ended, 0.0)

            candidates = (total.unsqueeze(-1) + log_probs).flatten(1)
            total, index = candidates.topk(beam, dim=1)
            vocab_size = log_probs.shape[-1]
            parent, token = index // vocab_size, index % vocab_size
            length = torch.where(ended, length, length + 1).gather(1, parent)
            ended = ended.gather(1, parent) | (token == end_id)
            target = target.gather(1, parent.unsqueeze(-1).expand_as(target))
            target = torch.cat([target, token.unsqueeze(-1)], dim=2)

        winner = (total / length_penalty(length, alpha)).argmax(dim=1)
        best_target = target[torch.arange(sentences, device=target.device), winner]
    # The winner may be shorter than its competitors. Its length doesn't include the start token.
    longest = int(length.gather(1, winner.unsqueeze(1)).max()) + 1
    return best_target[:, :longest]
