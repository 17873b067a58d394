"""Evaluation during training: loss and BLEU on held-out sentences, and the selection of the best weights.

The sentences are divided among the ranks. Each sentence is evaluated exactly once, regardless of the
number of ranks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.transformer import LabelSmoothingLoss, evaluating
from course_lib.transformer.batching import collate, token_batches
from course_lib.translation.configs.schema import Precision, RunConfig, SelectionConfig
from course_lib.translation.data.token_pairs import IdPair
from course_lib.translation.data.vocabulary import Vocabulary
from course_lib.translation.decoding.backends import Ensemble, make_backend
from course_lib.translation.decoding.batch_decoder import BatchDecoder
from course_lib.translation.decoding.search_settings import DecodeFunction, Hypothesis, SearchSettings
from course_lib.translation.distributed import DistributedInfo, all_gather
from course_lib.translation.model.loss import LossSum
from course_lib.translation.model.seq2seq import REFERENCE, Components, TransformerModel
from course_lib.translation.train.metrics import MetricsRow
from course_lib.translation.train.scoring import Candidate, TunedAlpha, tune_alpha

#: The default search settings: greedy decoding, which is fast, and nearly as good as beam search for
#: comparing epochs.
GREEDY = SearchSettings()


@dataclass
class Evaluator:
    """An evaluator of models. Its methods must be called on every rank, each time with all sentences."""

    config: RunConfig
    vocabulary: Vocabulary
    distributed: DistributedInfo
    device: torch.device
    components: Components = REFERENCE

    def __post_init__(self) -> None:
        self._evaluation, self._max_length = self.config.evaluation, self.config.data.max_length
        self._precision: Precision = self.config.training.precision
        self._decoder = BatchDecoder(self.vocabulary, self.device, self._max_length, self._evaluation)

    def loss(self, model: TransformerModel, pairs: Sequence[IdPair]) -> float:
        """Return the mean cross-entropy per token of all pairs in nats, without label smoothing.

        Sentences that exceed `data.max_length` are truncated.
        """
        ids = self.vocabulary
        loss_sum = LossSum(model, LabelSmoothingLoss(len(ids), ids.pad_id, 0.0), self._precision)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        count = torch.zeros((), dtype=torch.int64, device=self.device)
        lengths = [min(max(len(source), len(target)) + 2, self._max_length) for source, target in pairs]
        batches = token_batches(lengths, self._evaluation.tokens_per_batch)
        # Run eagerly, because the layers would be compiled again for the shapes of evaluation.
        with evaluating(loss_sum), torch.compiler.set_stance("force_eager"):
            for batch in self._shard(batches):
                source, target = collate(
                    [pairs[index] for index in batch], ids.pad_id, ids.start_id, ids.end_id, self._max_length
                )
                source, target = source.to(self.device), target.to(self.device)
                total += loss_sum(source, target)
                count += (target[:, 1:] != ids.pad_id).sum()
        return self.components.global_token_mean(total, count).item()

    def translate(
        self,
        model: TransformerModel,
        sentences: Sequence[Sequence[int]],
        settings: SearchSettings = GREEDY,
        decode: DecodeFunction | None = None,
    ) -> list[str]:
        """Translate sentences of token ids. Return all translations, in order, on every rank.

        The search is greedy by default; `decode`, if given, replaces it. The translation of an empty sentence
        is empty.
        """
        found = self._find(model, sentences, settings, decode)
        return [candidates[0][0] if candidates else "" for candidates in found]

    def tune(
        self,
        model: TransformerModel | Ensemble,
        sentences: Sequence[Sequence[int]],
        references: Sequence[str],
        beam: int,
    ) -> TunedAlpha:
        """Find the exponent of the length penalty with the best BLEU on `sentences` for this beam."""
        found = self._find(model, sentences, SearchSettings(beam, n_best=beam))
        empty = ("", Hypothesis([], 0.0, 0.0))
        return tune_alpha([candidates or [empty] for candidates in found], references)

    def settings(
        self, model: TransformerModel, sentences: Sequence[Sequence[int]], references: Sequence[str]
    ) -> SearchSettings:
        """Return the search settings of the config. If `alpha` is `auto`, it is tuned on `sentences`."""
        alpha, beam = self._evaluation.alpha, self._evaluation.beam_size
        if beam == 1:
            return SearchSettings()  # With a single hypothesis, the length penalty has no effect.
        if alpha == "auto":
            alpha = self.tune(model, sentences, references, beam).alpha
        return SearchSettings(beam, alpha)

    def _find(
        self,
        model: TransformerModel | Ensemble,
        sentences: Sequence[Sequence[int]],
        settings: SearchSettings,
        decode: DecodeFunction | None = None,
    ) -> list[list[Candidate]]:
        """Decode this rank's share of the sentences. Return the candidates of all sentences, in order.

        An empty sentence has no candidates. `decode` isn't used for an ensemble.
        """
        shard = self._shard(self._decoder.batches(sentences, settings.beam))
        mine: list[tuple[int, list[Hypothesis]]] = []
        with torch.compiler.set_stance("force_eager"):
            if decode is None or isinstance(model, Ensemble):
                backend = make_backend(model, self._precision)
                mine = self._decoder.decode_batches(backend, sentences, shard, settings)
            else:
                for batch in shard:
                    rows = decode(model, [sentences[index] for index in batch], settings)
                    mine += zip(batch, rows, strict=True)
        found: list[list[Candidate]] = [[] for _ in sentences]
        for index, hypotheses in all_gather(self.distributed, mine):
            texts = self.vocabulary.decode([each.ids for each in hypotheses])
            found[index] = list(zip(texts, hypotheses, strict=True))
        return found

    def _shard(self, batches: Sequence[list[int]]) -> Sequence[list[int]]:
        return self.components.shard(batches, self.distributed.rank, self.distributed.world_size)


class BestWeights:
    """A record of the best validation result, which also determines when to stop early."""

    def __init__(self, config: SelectionConfig) -> None:
        self._patience = config.patience
        self._key, self._sign = {"loss": ("validation_loss", -1.0), "bleu": ("bleu", 1.0)}[config.metric]
        self._best = -math.inf
        self._since = 0
        self.step = 0
        """The update after which the best result was measured; 0 before the first."""

    def is_better(self, row: MetricsRow, step: int) -> bool:
        """Record the row of metrics of update `step`, and return whether it is the best so far.

        A row without the selection metric is ignored. Neither an equal result nor NaN counts as better.
        """
        if self._key not in row:
            return False
        value = self._sign * float(row[self._key])
        if value > self._best:
            self._best, self._since, self.step = value, 0, step
            return True
        self._since += 1
        return False

    @property
    def patience_exhausted(self) -> bool:
        """Whether training should stop early, because none of the last `patience` results was a new best."""
        return self._patience is not None and self._since >= self._patience

    def state(self) -> dict[str, float | int]:
        """Return the state that `load` restores."""
        return {"best": self._best, "since": self._since, "step": self.step}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state returned by `state()`."""
        self._best, self._since, self.step = state["best"], state["since"], state["step"]
