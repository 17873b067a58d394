"""How good is the model? Its loss and its translations on sentences that it has not learnt from.

Both are shared out over the processes, and every sentence is looked at once, whatever their number.
"""

from collections.abc import Sequence
from typing import Any

import torch

from course_lib.transformer import LabelSmoothingLoss, evaluating
from course_lib.transformer.batching import collate, token_batches
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.data.epoch_plan import IdPair
from course_lib.translation.data.vocabularies import Vocabularies
from course_lib.translation.decoding import BatchDecoder, Hypothesis, SearchSettings, ready
from course_lib.translation.decoding.tuning import Candidate, Tuned, tune_alpha
from course_lib.translation.model.components import REFERENCE, Pieces
from course_lib.translation.model.precision import Precision
from course_lib.translation.model.trainable import LossSum
from course_lib.translation.student_code.search import Decode
from course_lib.translation.training.distributed import Place, gather

#: Fast and nearly as good: what the epochs of a run are compared by.
GREEDY = SearchSettings()


class Evaluator:
    """Looks at sentences in batches, together with the evaluators of the other processes."""

    def __init__(
        self,
        config: RunConfig,
        vocabularies: Vocabularies,
        place: Place,
        device: torch.device,
        pieces: Pieces = REFERENCE,
    ) -> None:
        self._pieces = pieces
        self._vocabularies = vocabularies
        self._config = config.evaluation
        self._max_length = config.data.max_length
        self._precision: Precision = config.training.precision
        self._place = place
        self._device = device
        self._decoder = BatchDecoder(vocabularies, device, self._max_length, self._config.tokens_per_batch)

    def loss(self, model: Any, pairs: Sequence[IdPair]) -> float:
        """Give the cross-entropy in nats a token, without label smoothing, over all pairs.

        `pairs` holds the ids of sources and targets, without start and end; every process has all of them.
        """
        ids = self._vocabularies
        no_smoothing = LabelSmoothingLoss(len(ids.target), ids.pad_id, smoothing=0.0)
        loss_sum = LossSum(model, no_smoothing, self._precision)
        total = torch.zeros((), dtype=torch.float64, device=self._device)
        count = torch.zeros((), dtype=torch.int64, device=self._device)
        lengths = [min(max(len(source), len(target)) + 2, self._max_length) for source, target in pairs]
        batches = token_batches(lengths, self._config.tokens_per_batch)
        with evaluating(model):
            for batch in self._pieces.shard(batches, self._place.rank, self._place.world_size):
                source, target = collate(
                    [pairs[index] for index in batch], ids.pad_id, ids.start_id, ids.end_id, self._max_length
                )
                source, target = source.to(self._device), target.to(self._device)
                total += loss_sum(source, target)
                count += (target[:, 1:] != ids.pad_id).sum()
        return self._pieces.global_token_mean(total, count).item()

    def translate(
        self,
        model: Any,
        sentences: Sequence[Sequence[int]],
        settings: SearchSettings = GREEDY,
        decode: Decode | None = None,
    ) -> list[str]:
        """Translate sentences, given as ids. Every process gets all translations, in order.

        `decode`, if given, is another search than the lab's.
        """
        found = self._find(model, sentences, settings, decode)
        return [candidates[0].text if candidates else "" for candidates in found]

    def tune(
        self, model: Any, sentences: Sequence[Sequence[int]], references: Sequence[str], beam: int
    ) -> Tuned:
        """Choose the length penalty for a beam by BLEU on these sentences."""
        found = self._find(model, sentences, SearchSettings(beam, n_best=beam))
        return tune_alpha([candidates or [Candidate("", 0, 0.0)] for candidates in found], references)

    def settings(
        self, model: Any, sentences: Sequence[Sequence[int]], references: Sequence[str]
    ) -> SearchSettings:
        """Give the config's way to search; where its length penalty is left open, the best for these."""
        alpha = self._config.alpha
        if self._config.beam_size == 1:
            # With one translation there is nothing to choose from.
            return SearchSettings()
        if alpha == "auto":
            alpha = self.tune(model, sentences, references, self._config.beam_size).alpha
        return SearchSettings(self._config.beam_size, alpha)

    def _find(
        self,
        model: Any,
        sentences: Sequence[Sequence[int]],
        settings: SearchSettings,
        decode: Decode | None = None,
    ) -> list[list[Candidate]]:
        batches = self._decoder.batches(sentences, settings.beam)
        share = self._pieces.shard(batches, self._place.rank, self._place.world_size)
        mine: list[tuple[int, list[Hypothesis]]] = []
        if decode is None:
            mine = self._decoder.decode_batches(ready(model, self._precision), sentences, share, settings)
        else:
            for batch in share:
                mine += zip(
                    batch, decode(model, [sentences[index] for index in batch], settings), strict=True
                )
        found: list[list[Candidate]] = [[] for _ in sentences]
        for index, hypotheses in gather(self._place, mine):
            texts = self._vocabularies.target.decode([each.ids for each in hypotheses])
            found[index] = [
                Candidate(text, len(each.ids), each.log_probability)
                for text, each in zip(texts, hypotheses, strict=True)
            ]
        return found
