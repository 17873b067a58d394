"""Beam search over a batch, with the same results as `course_lib.transformer.beam_search`.

The reference stops when all beams of all sentences have ended. Here each sentence has its own length limit,
and finished sentences leave the batch early.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from course_lib.transformer import evaluating, length_penalty
from course_lib.translation.decoding.backends import DecoderBackend
from course_lib.translation.decoding.search_settings import Hypothesis, SearchSettings

#: Steps between checks for finished sentences. On a GPU, each check waits for all pending work.
STEPS_BETWEEN_CHECKS = {"cpu": 1, "cuda": 4}

#: The share of finished sentences in a batch at which they are removed. Removing them copies all others, so
#: it isn't done after every step.
FINISHED_SHARE = 0.2

#: The block size of `top_candidates`.
BLOCK = 64


def search(
    backend: DecoderBackend,
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B 1 S"],
    max_lengths: Int[Tensor, "B"],
    settings: SearchSettings,
    start_id: int,
    end_id: int,
) -> list[list[Hypothesis]]:
    """Translate a batch, and return up to `settings.n_best` hypotheses for each sentence, the best first.

    `max_lengths` holds the maximum length of each translation, including the start token. Each sentence must
    contain at least one token that is not padding.
    """
    if not len(source) or int(max_lengths.max()) <= 1:
        return [[Hypothesis([], 0.0, 0.0)] for _ in source]
    with evaluating(backend.module):
        return _Search(backend, source, source_mask, max_lengths, settings, start_id, end_id).run()


class _Search:
    """The state of a search: the unfinished sentences of a batch, with K beams.

    K is 1 before the first step, then `settings.beam`.
    """

    def __init__(
        self,
        backend: DecoderBackend,
        source: Tensor,
        source_mask: Tensor,
        max_lengths: Tensor,
        settings: SearchSettings,
        start_id: int,
        end_id: int,
    ) -> None:
        self._beam, self._alpha, self._n_best = settings.beam, settings.alpha, settings.n_best
        self._end_id = end_id
        self._max_steps = int(max_lengths.max()) - 1
        self._decoder = backend.start(source, source_mask, settings.beam)
        self._dtype = torch.promote_types(self._decoder.dtype, torch.float32)

        rows = len(source)
        self._found: list[list[Hypothesis]] = [[] for _ in range(rows)]
        self._sentence = torch.arange(rows, device=source.device)
        self._limit = (max_lengths.to(source.device) - 1).unsqueeze(1)
        self._last = source.new_full((rows, 1), start_id)
        self._ids = source.new_full((rows, settings.beam, self._max_steps), end_id)
        self._total = torch.zeros(rows, 1, device=source.device, dtype=self._dtype)
        self._length = torch.zeros_like(self._total)
        # A sentence whose limit allows no tokens has ended before the first step.
        self._ended = self._limit == 0

    def run(self) -> list[list[Hypothesis]]:
        """Decode token by token until every sentence is finished, and return the hypotheses of each."""
        for step in range(self._max_steps):
            self._step(step)
            interval = STEPS_BETWEEN_CHECKS[self._last.device.type]
            if (step + 1) % interval == 0 or step + 1 == self._max_steps:
                finished = self._finished()
                count = int(finished.sum())
                if count == len(finished):
                    self._collect(finished)
                    break
                if count >= FINISHED_SHARE * len(finished):
                    self._collect(finished)
                    self._keep(~finished)
        return self._found

    def _step(self, step: int) -> None:
        logits = self._decoder.step(self._last).to(self._dtype)
        total, parent, token = self._choose(logits)
        self._total = total
        self._length = (self._length + ~self._ended).gather(1, parent)
        self._ended = self._ended.gather(1, parent) | (token == self._end_id) | (self._limit <= step + 1)
        if self._beam > 1:
            self._decoder.reorder_beams(parent)
            prefix = self._ids[:, :, :step]
            self._ids[:, :, :step] = prefix.gather(1, parent.unsqueeze(-1).expand_as(prefix))
        self._ids[:, :, step] = token
        self._last = token

    def _choose(self, logits: Float[Tensor, "B K V"]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the best continuations of each sentence's beams: their totals, parent beams and tokens."""
        sentences, beams, vocabulary = logits.shape
        count = min(self._beam, vocabulary)
        rows = logits.flatten(0, 1)
        best, token = top_candidates(rows, count)
        # Normalise only the candidates, and reuse the memory of the logits: allocating another large tensor
        # at every step takes longer than computing it.
        log_partition = rows.sub_(best[:, :1]).exp_().sum(dim=1, keepdim=True).log()
        log_probability = (best - best[:, :1] - log_partition).unflatten(0, (sentences, beams))
        # A beam that has ended can only continue with the end token, with log-probability 0.
        ended = self._ended.unsqueeze(-1)
        only_first = torch.full_like(log_probability[:1, :1], -torch.inf)
        only_first[..., 0] = 0.0
        log_probability = torch.where(ended, only_first, log_probability)
        token = token.unflatten(0, (sentences, beams)).masked_fill(ended, self._end_id)
        totals = (self._total.unsqueeze(-1) + log_probability).flatten(1)
        if self._beam == 1:
            return totals, torch.zeros_like(token[..., 0]), token[..., 0]
        missing = self._beam - totals.shape[1]
        if missing > 0:
            # There are fewer continuations than beams, so add impossible ones.
            totals = F.pad(totals, (0, missing), value=-torch.inf)
        total, index = totals.topk(self._beam, dim=1)
        index = index.clamp(max=beams * count - 1)
        return total, index // count, token.flatten(1).gather(1, index)

    def _scores(self) -> Float[Tensor, "B K"]:
        return self._total / length_penalty(self._length, self._alpha)

    def _finished(self) -> Bool[Tensor, "B"]:
        """Return a mask of the sentences whose `n_best` best hypotheses are certain.

        The total of a beam can only fall, and its length can only grow up to the limit, so its final score is
        at most total / penalty(limit). If `n_best` ended beams have higher scores, no other beam can overtake
        them. Nor can another beam displace them from the search, because its total would be lower than
        theirs.
        """
        if self._beam == 1:
            return self._ended.all(dim=1)
        ended_scores = self._scores().masked_fill(~self._ended, -torch.inf)
        nth_best = ended_scores.topk(self._n_best, dim=1).values[:, -1]
        bound = self._total / length_penalty(self._limit.to(self._dtype), self._alpha)
        highest_bound = bound.masked_fill(self._ended, -torch.inf).amax(dim=1)
        return self._ended.all(dim=1) | ((nth_best > highest_bound) & (nth_best > -torch.inf))

    def _collect(self, finished: Bool[Tensor, "B"]) -> None:
        """Store the ended beams with the best scores as the hypotheses of the finished sentences."""
        scores = self._scores().masked_fill(~self._ended, -torch.inf)[finished]
        best = scores.topk(min(self._n_best, scores.shape[1]), dim=1)
        columns = (
            self._sentence[finished].tolist(),
            best.indices.tolist(),
            best.values.tolist(),
            self._total[finished].tolist(),
            self._length[finished].long().tolist(),
            self._ids[finished].tolist(),
        )
        for sentence, beams, values, totals, lengths, ids in zip(*columns, strict=True):
            self._found[sentence] = [
                Hypothesis(ids[beam][: lengths[beam]], totals[beam], score)
                for beam, score in zip(beams, values, strict=True)
                if totals[beam] != -torch.inf
            ]

    def _keep(self, kept: Bool[Tensor, "B"]) -> None:
        """Remove all sentences from the batch except those that the mask `kept` selects."""
        rows = kept.nonzero().squeeze(1)
        self._decoder.keep_sentences(rows)
        for name in ("_sentence", "_limit", "_last", "_ids", "_total", "_length", "_ended"):
            setattr(self, name, getattr(self, name)[rows])


def top_candidates(
    scores: Float[Tensor, "R V"], count: int
) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """Return the `count` largest scores of each row and their indices, like `torch.topk` but faster.

    If a row has fewer than `count` scores, all of them are returned. The largest scores are in the blocks
    with the largest maxima. One fast pass computes the maxima, and only the selected blocks are sorted. The
    order of equal scores is unspecified.
    """
    rows, width = scores.shape
    blocks, rest = divmod(width, BLOCK)
    if count >= blocks:
        return scores.topk(min(count, width), dim=1)
    blocked = scores[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    chosen = blocked.amax(dim=2).topk(count, dim=1).indices
    values = blocked.gather(1, chosen.unsqueeze(-1).expand(-1, -1, BLOCK)).flatten(1)
    indices = (chosen.unsqueeze(-1) * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    if rest:
        last = torch.arange(blocks * BLOCK, width, device=scores.device).expand(rows, -1)
        values = torch.cat([values, scores[:, blocks * BLOCK :]], dim=1)
        indices = torch.cat([indices, last], dim=1)
    best, which = values.topk(count, dim=1)
    return best, indices.gather(1, which)
