"""Many sentences: batches with little padding, and for each model the search that suits it."""

from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch import nn

from course_lib import transformer as reference
from course_lib.translation.batches import collate, token_batches
from course_lib.translation.decoding.hypothesis import Hypothesis, SearchSettings
from course_lib.translation.decoding.search import search
from course_lib.translation.decoding.uncached import search_uncached
from course_lib.translation.fused_attention import fused_attention
from course_lib.translation.model import Precision, arithmetic
from course_lib.translation.vocabularies import Vocabularies

_INSIDES = {
    *(reference.Transformer, reference.EncoderLayer, reference.DecoderLayer, reference.SublayerConnection),
    *(reference.MultiHeadAttention, reference.FeedForward, reference.LayerNorm),
    *(reference.TokenEmbedding, reference.PositionalEncoding),
    *(nn.Linear, nn.Embedding, nn.Dropout, nn.ModuleList),
}
_ATTENTION = (reference.scaled_dot_product_attention, fused_attention)


def has_reference_insides(model: nn.Module) -> TypeGuard[reference.Transformer]:
    """Say whether a model is the reference's through and through, so that its decoder can keep a cache.

    A student's parts promise what they compute, and not what they are made of.
    """
    return type(model) is reference.Transformer and all(
        type(module) in _INSIDES and getattr(module, "attention", _ATTENTION[0]) in _ATTENTION
        for module in model.modules()
    )


def greatest_length(source_length: int) -> int:
    """Say how many tokens a translation may have, the start counted, of so many with start and end.

    A translation is seldom a fifth longer than its source; short ones need some air.
    """
    return int(1.2 * source_length) + 10


class BatchDecoder:
    """Decodes sentences, given as ids without start and end. Longer ones than `max_length` are cut."""

    def __init__(
        self,
        vocabularies: Vocabularies,
        device: torch.device,
        max_length: int,
        tokens_per_batch: int,
        precision: Precision = "float32",
    ) -> None:
        self._vocabularies = vocabularies
        self._device = device
        self._max_length = max_length
        self._tokens_per_batch = tokens_per_batch
        self._precision: Precision = precision

    def batches(self, sentences: Sequence[Sequence[int]], beam: int) -> list[list[int]]:
        """Plan batches of sentences of like length, as lists of indices; beams count as sentences do."""
        lengths = [min(len(ids) + 2, self._max_length) for ids in sentences]
        # A sentence that fills the budget all by itself is decoded all the same.
        room = max(self._tokens_per_batch // beam, *lengths, 1) if lengths else 1
        return token_batches(lengths, room)

    def decode(
        self, model: Any, sentences: Sequence[Sequence[int]], settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        """Decode one batch: for each sentence its hypotheses, the best first.

        What is found for a sentence does not depend on what else is in the batch.
        """
        ids = self._vocabularies
        source, _ = collate(
            [(sentence, []) for sentence in sentences], ids.pad_id, ids.start_id, ids.end_id, self._max_length
        )
        lengths = (source != ids.pad_id).sum(dim=1)
        greatest = torch.tensor([greatest_length(length) for length in lengths.tolist()])
        if has_reference_insides(model):
            source = source.to(self._device)
            mask = reference.padding_mask(source, ids.pad_id)
            return search(model, source, mask, greatest, settings, ids.start_id, ids.end_id, self._precision)
        found: list[list[Hypothesis]] = [[] for _ in sentences]
        for length in lengths.unique():
            rows = (lengths == length).nonzero().squeeze(1)
            alike = source[rows, : int(length)].to(self._device)
            longest = int(greatest[rows[0]])
            with arithmetic(self._precision, self._device):
                some = search_uncached(model, alike, longest, settings, ids.start_id, ids.end_id)
            for row, hypotheses in zip(rows.tolist(), some, strict=True):
                found[row] = hypotheses
        return found

    def decode_all(
        self, model: Any, sentences: Sequence[Sequence[int]], settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        """Decode any number of sentences in batches, and give what was found in their order."""
        found: list[list[Hypothesis]] = [[] for _ in sentences]
        for batch in self.batches(sentences, settings.beam):
            some = self.decode(model, [sentences[index] for index in batch], settings)
            for index, hypotheses in zip(batch, some, strict=True):
                found[index] = hypotheses
        return found
