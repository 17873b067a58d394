"""Many sentences, decoded in batches with little padding."""

from collections.abc import Sequence

import torch

from course_lib.transformer import evaluating, padding_mask
from course_lib.transformer.batching import collate, token_batches
from course_lib.translation.data.vocabularies import Vocabularies
from course_lib.translation.decoding.backends import Ready
from course_lib.translation.decoding.batched_search import search
from course_lib.translation.decoding.hypothesis import Hypothesis, SearchSettings
from course_lib.translation.decoding.parallel_batches import side_by_side


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
    ) -> None:
        self._vocabularies = vocabularies
        self._device = device
        self._max_length = max_length
        self._tokens_per_batch = tokens_per_batch

    def batches(self, sentences: Sequence[Sequence[int]], beam: int) -> list[list[int]]:
        """Plan batches of sentences of like length, as lists of indices; beams count as sentences do.

        Sentences without a token are in none: their translation has none either.
        """
        indices = [index for index, ids in enumerate(sentences) if len(ids)]
        lengths = [min(len(sentences[index]) + 2, self._max_length) for index in indices]
        # A sentence that fills the budget all by itself is decoded all the same.
        room = max(self._tokens_per_batch // beam, max(lengths, default=0))
        return [[indices[place] for place in batch] for batch in token_batches(lengths, room)]

    def decode(
        self, model: Ready, sentences: Sequence[Sequence[int]], settings: SearchSettings
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
        source = source.to(self._device)
        mask = padding_mask(source, ids.pad_id)
        return search(model, source, mask, greatest, settings, ids.start_id, ids.end_id)

    def decode_batches(
        self,
        model: Ready,
        sentences: Sequence[Sequence[int]],
        batches: Sequence[Sequence[int]],
        settings: SearchSettings,
    ) -> list[tuple[int, list[Hypothesis]]]:
        """Decode some batches, given as indices: for each sentence in them its index and its hypotheses.

        On a CPU they are decoded side by side, if the model bears that.
        """

        def decode(batch: Sequence[int]) -> list[tuple[int, list[Hypothesis]]]:
            found = self.decode(model, [sentences[index] for index in batch], settings)
            return list(zip(batch, found, strict=True))

        if not model.shares or self._device.type != "cpu":
            found = [decode(batch) for batch in batches]
        else:
            # Every search leaves the model as it was, and so must find it as all the others leave it.
            with evaluating(model.model):
                found = side_by_side(decode, batches)
        return [each for batch in found for each in batch]

    def decode_all(
        self, model: Ready, sentences: Sequence[Sequence[int]], settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        """Decode any number of sentences in batches, and give what was found in their order."""
        found = [[Hypothesis([], 0.0, 0.0)] for _ in sentences]
        batches = self.batches(sentences, settings.beam)
        for index, hypotheses in self.decode_batches(model, sentences, batches, settings):
            found[index] = hypotheses
        return found
