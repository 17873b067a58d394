"""Beam search over a batch, step by step: it finds what `course_lib.transformer.beam_search` finds.

The reference stops when every beam of every sentence has ended. Here each sentence has its own greatest
length, leaves the batch once nothing can change about it, and is not held up by the others.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_lib.transformer import evaluating, length_penalty
from course_lib.translation.decoding.backends import Ready
from course_lib.translation.decoding.hypothesis import Hypothesis, SearchSettings
from course_lib.translation.decoding.top_candidates import best_few

#: Steps between two looks at which sentences are done. On a GPU each look waits for all that was asked of it.
STEPS_BETWEEN_LOOKS = {"cpu": 1, "cuda": 4}

#: Sentences that are done stay in the batch until they are this share of it: to move the others costs too.
DONE_SHARE = 0.2


def search(
    model: Ready,
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B 1 S"],
    max_lengths: Int[Tensor, "B"],
    settings: SearchSettings,
    start_id: int,
    end_id: int,
) -> list[list[Hypothesis]]:
    """Translate a batch: for each sentence up to `settings.n_best` hypotheses, the best first.

    `max_lengths` says for each sentence how many tokens it may have, the start counted. Each sentence needs a
    real token.
    """
    with evaluating(model.model):
        return _Search(model, source, source_mask, max_lengths, settings, start_id, end_id).run()


class _Search:
    """The sentences of a batch that are still in work; K is 1 before the first step, then the beam."""

    def __init__(
        self,
        model: Ready,
        source: Tensor,
        source_mask: Tensor,
        max_lengths: Tensor,
        settings: SearchSettings,
        start_id: int,
        end_id: int,
    ) -> None:
        self._beam, self._alpha, self._n_best = settings.beam, settings.alpha, settings.n_best
        self._end_id = end_id
        self._found = [[Hypothesis([], 0.0, 0.0)] for _ in source]
        self._most_steps = max(int(max_lengths.max()) - 1, 0) if len(source) else 0
        if not self._most_steps:
            return
        self._steps = model.begin(source, source_mask, settings.beam, self._most_steps)
        self._dtype = torch.promote_types(self._steps.dtype, torch.float32)

        rows = len(source)
        self._sentence = torch.arange(rows, device=source.device)
        self._limit = (max_lengths.to(source.device) - 1).unsqueeze(1)
        self._last = source.new_full((rows, 1), start_id)
        self._written = source.new_full((rows, settings.beam, self._most_steps), end_id)
        self._total = torch.zeros(rows, 1, device=source.device, dtype=self._dtype)
        self._length = torch.zeros_like(self._total)
        # Whether a beam goes on no more; a sentence that may have no token at all never begins.
        self._ended = self._limit == 0

    def run(self) -> list[list[Hypothesis]]:
        """Make steps until every sentence is done."""
        for step in range(self._most_steps):
            self._step(step)
            looks = STEPS_BETWEEN_LOOKS[self._last.device.type]
            if (step + 1) % looks == 0 or step + 1 == self._most_steps:
                done = self._done()
                count = int(done.sum())
                if count == len(done):
                    self._collect(done)
                    break
                if count >= DONE_SHARE * len(done):
                    self._collect(done)
                    self._keep(~done)
        return self._found

    def _step(self, step: int) -> None:
        logits = self._steps.step(self._last).to(self._dtype)
        total, parent, token = self._choose(logits)
        self._total = total
        self._length = (self._length + ~self._ended).gather(1, parent)
        self._ended = self._ended.gather(1, parent) | (token == self._end_id) | (self._limit <= step + 1)
        if self._beam > 1:
            self._steps.follow(parent)
            written = self._written[:, :, :step]
            # The first step has one beam, whose continuations are all beams to come.
            self._written[:, :, :step] = written.gather(1, parent.unsqueeze(-1).expand_as(written))
        self._written[:, :, step] = token
        self._last = token

    def _choose(self, logits: Float[Tensor, "B K V"]) -> tuple[Tensor, Tensor, Tensor]:
        """Find the best continuations of a sentence's beams: their totals, their beams and their tokens."""
        sentences, beams, words = logits.shape
        few = min(self._beam, words)
        best, token = best_few(logits.flatten(0, 1).log_softmax(dim=1), few)
        log_probability = best.unflatten(0, (sentences, beams))
        # What has ended goes on with the end symbol, at no cost.
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
            # Fewer words than beams: the others are as good as impossible.
            totals = torch.nn.functional.pad(totals, (0, missing), value=-torch.inf)
        total, place = totals.topk(self._beam, dim=1)
        place = place.clamp(max=beams * few - 1)
        return total, place // few, token.flatten(1).gather(1, place)

    def _scores(self) -> Float[Tensor, "B K"]:
        return self._total / length_penalty(self._length, self._alpha)

    def _done(self) -> Bool[Tensor, "B"]:
        """Say which sentences have their n best, whatever the beams that go on may still find.

        A beam's total can only fall, and its length grow up to the limit: its score never exceeds
        total / penalty(limit). Where n ended beams reach that, no other can overtake them. Nor can it push
        them out of the beam: its total must then be below theirs.
        """
        if self._beam == 1:
            return self._ended.all(dim=1)
        ended_scores = self._scores().masked_fill(~self._ended, -torch.inf)
        nth_best = ended_scores.topk(self._n_best, dim=1).values[:, -1]
        ceiling = self._total / length_penalty(self._limit.to(self._dtype), self._alpha)
        highest = ceiling.masked_fill(self._ended, -torch.inf).amax(dim=1)
        return self._ended.all(dim=1) | ((nth_best > highest) & (nth_best > -torch.inf))

    def _collect(self, done: Bool[Tensor, "B"]) -> None:
        """Write down what was found for the sentences that are done."""
        scores = self._scores()
        # Only what has ended counts; where nothing has, the sentence isn't done.
        scores = scores.masked_fill(~self._ended, -torch.inf)[done]
        best = scores.topk(min(self._n_best, scores.shape[1]), dim=1)
        written, length = self._written[done], self._length[done].long()
        columns = (
            self._sentence[done].tolist(),
            best.indices.tolist(),
            best.values.tolist(),
            self._total[done].tolist(),
            length.tolist(),
            written.tolist(),
        )
        for sentence, places, values, totals, lengths, ids in zip(*columns, strict=True):
            self._found[sentence] = [
                Hypothesis(ids[place][: lengths[place]], totals[place], score)
                for place, score in zip(places, values, strict=True)
                if totals[place] != -torch.inf
            ]

    def _keep(self, kept: Bool[Tensor, "B"]) -> None:
        """Go on with these sentences only."""
        rows = kept.nonzero().squeeze(1)
        self._steps.keep(rows)
        for name in ("_sentence", "_limit", "_last", "_written", "_total", "_length", "_ended"):
            setattr(self, name, getattr(self, name)[rows])
