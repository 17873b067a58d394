"""How good is the model? Its loss and its translations on sentences that it has not learnt from.

Both are shared out over the processes, and every sentence is looked at once, whatever their number.
"""

from collections.abc import Sequence

import torch

from course_lib.transformer import LabelSmoothingLoss, Transformer, evaluating, greedy_decode, padding_mask
from course_lib.translation.batches import IdPair, collate, token_batches
from course_lib.translation.config import RunConfig
from course_lib.translation.distributed import Place, gather, global_token_mean, shard
from course_lib.translation.model import LossSum, Precision, arithmetic
from course_lib.translation.vocabularies import Vocabularies


class Evaluator:
    """Looks at sentences in batches, together with the evaluators of the other processes."""

    def __init__(
        self, config: RunConfig, vocabularies: Vocabularies, place: Place, device: torch.device
    ) -> None:
        self._vocabularies = vocabularies
        self._tokens_per_batch = config.evaluation.tokens_per_batch
        self._max_length = config.data.max_length
        self._precision: Precision = config.training.precision
        self._place = place
        self._device = device

    def loss(self, model: Transformer, pairs: Sequence[IdPair]) -> float:
        """Give the cross-entropy in nats a token, without label smoothing, over all pairs.

        `pairs` holds the ids of sources and targets, without start and end; every process has all of them.
        """
        no_smoothing = LabelSmoothingLoss(
            len(self._vocabularies.target), self._vocabularies.pad_id, smoothing=0.0
        )
        loss_sum = LossSum(model, no_smoothing, self._precision)
        total = torch.zeros((), dtype=torch.float64, device=self._device)
        count = torch.zeros((), dtype=torch.int64, device=self._device)
        with evaluating(model):
            for batch in self._my_batches([max(len(source), len(target)) for source, target in pairs]):
                source, target = self._collate([pairs[index] for index in batch])
                total += loss_sum(source, target)
                count += (target[:, 1:] != self._vocabularies.pad_id).sum()
        return global_token_mean(total, count).item()

    def translate(self, model: Transformer, sentences: Sequence[Sequence[int]]) -> list[str]:
        """Translate sentences, given as ids, greedily. Every process gets all translations, in order."""
        written: list[tuple[int, str]] = []
        for batch in self._my_batches([len(sentence) for sentence in sentences]):
            source, _ = self._collate([(sentences[index], []) for index in batch])
            # A translation is seldom a fifth longer than its source; short ones need some air.
            max_length = int(1.2 * source.shape[1]) + 10
            with arithmetic(self._precision, self._device):
                target = greedy_decode(
                    model,
                    source,
                    padding_mask(source, self._vocabularies.pad_id),
                    max_length,
                    self._vocabularies.start_id,
                    self._vocabularies.end_id,
                )
            written += zip(batch, self._vocabularies.target.decode(target.tolist()), strict=True)
        return [text for _, text in sorted(gather(self._place, written))]

    def _my_batches(self, lengths: Sequence[int]) -> Sequence[list[int]]:
        with_ends = [min(length + 2, self._max_length) for length in lengths]
        return shard(
            token_batches(with_ends, self._tokens_per_batch), self._place.rank, self._place.world_size
        )

    def _collate(self, pairs: Sequence[IdPair]) -> tuple[torch.Tensor, torch.Tensor]:
        ids = self._vocabularies
        source, target = collate(pairs, ids.pad_id, ids.start_id, ids.end_id, self._max_length)
        return source.to(self._device), target.to(self._device)
