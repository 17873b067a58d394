"""A baseline for the lab's training speed: the simple, correct method of many tutorials.

It uses batches of 32 sentences in random order, all padded to 72 tokens, in float32. Attention is computed
with plain matrix products. It computes logits at every position, including padding, and stores the smoothed
targets over the whole vocabulary.
"""

import random
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.optim import Adam

from course_lib.transformer import decoder_mask, make_scheduler, padding_mask, shift_target
from course_lib.translation.configs.schema import ModelConfig
from course_lib.translation.data.subwords import Subwords
from course_lib.translation.data.token_pairs import IdPair
from course_lib.translation.model.seq2seq import build_model

SENTENCES, LENGTH, SMOOTHING = 32, 72, 0.1


class TextbookTraining:
    """A model trained by the textbook method, with one batch per update.

    Its source and target vocabularies have `vocabulary` tokens each.
    """

    def __init__(self, model: ModelConfig, vocabulary: int, device: torch.device) -> None:
        self._device = device
        self._vocabulary = vocabulary
        plain = model.model_copy(update={"attention": "plain"})
        self._model = build_model(plain, vocabulary, vocabulary, "float32", device)
        self._optimizer = Adam(self._model.parameters(), 1.0, betas=(0.9, 0.98), eps=1e-9)
        self._scheduler = make_scheduler(self._optimizer, model.d_model, 4000)
        self._criterion = nn.KLDivLoss(reduction="sum")

    def update(self, source: Tensor, target: Tensor) -> int:
        """Make an update, and return the number of its labels that are not padding."""
        source, target = source.to(self._device), target.to(self._device)
        decoder_input, labels = shift_target(target)
        source_mask = padding_mask(source, Subwords.pad_id)
        target_mask = decoder_mask(decoder_input, Subwords.pad_id)
        logits = self._model(source, source_mask, decoder_input, target_mask)
        real = int((labels != Subwords.pad_id).sum())
        log_probabilities = logits.log_softmax(-1)
        loss = self._criterion(log_probabilities.flatten(0, 1), self._targets(labels.flatten())) / real
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self._scheduler.step()
        return real

    def _targets(self, labels: Tensor) -> Tensor:
        targets = torch.full(
            (len(labels), self._vocabulary), SMOOTHING / self._vocabulary, device=labels.device
        )
        targets.scatter_(1, labels.unsqueeze(1), 1 - SMOOTHING + SMOOTHING / self._vocabulary)
        targets[labels == Subwords.pad_id] = 0.0
        return targets


def fixed_batches(pairs: Sequence[IdPair]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield random batches of 32 pairs endlessly. Each side is padded or truncated to 72 tokens."""
    rng = random.Random(1)
    while True:
        chosen = rng.sample(pairs, SENTENCES)
        yield _matrix([source for source, _ in chosen]), _matrix([target for _, target in chosen])


def _matrix(sentences: Sequence[Sequence[int]]) -> Tensor:
    matrix = torch.full((len(sentences), LENGTH), Subwords.pad_id)
    for row, ids in zip(matrix, sentences, strict=True):
        tokens = [Subwords.start_id, *ids[: LENGTH - 2], Subwords.end_id]
        row[: len(tokens)] = torch.tensor(tokens)
    return matrix
