"""Decode many sentences in batches with little padding. On a CPU, decode several batches in parallel."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch

from course_lib.transformer import evaluating, padding_mask
from course_lib.transformer.batching import collate, token_batches
from course_lib.translation.configs.schema import EvaluationConfig
from course_lib.translation.data.vocabulary import Vocabulary
from course_lib.translation.decoding.backends import DecoderBackend
from course_lib.translation.decoding.beam_search import search
from course_lib.translation.decoding.search_settings import Hypothesis, SearchSettings

#: The maximum number of batches decoded in parallel. On four cores, decoding 1, 2 and 4 batches at a time
#: produced 256, 452 and 494 translations per second, and 121, 211 and 315 with a beam of 5. The speed-up
#: isn't proportional, because only one thread at a time runs Python code.
MAX_PARALLEL_BATCHES = 4

#: Batches are split so that each thread gets BATCHES_PER_THREAD of them: with few large batches, threads that
#: finish early would wait a long time for the last one. But all parts of a batch except the last have at
#: least MIN_SPLIT_ROWS hypotheses, because matrix products with fewer rows are slower.
BATCHES_PER_THREAD, MIN_SPLIT_ROWS = 3, 128

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class BatchDecoder:
    """A decoder of sentences in batches. Sentences are token ids without the start and end tokens.

    A sentence is truncated if it is longer than `max_length`, which includes these two tokens.
    """

    vocabulary: Vocabulary
    device: torch.device
    max_length: int
    config: EvaluationConfig

    def batches(self, sentences: Sequence[Sequence[int]], beam: int) -> list[list[int]]:
        """Group sentences of similar length into batches, and return each batch as a list of indices.

        A batch has at most `config.tokens_per_batch` tokens, counted once for each of the `beam` hypotheses
        of a sentence; the limit is higher if the longest sentence alone exceeds it. Empty sentences are left
        out, because their translations are empty as well.
        """
        indices = [index for index, ids in enumerate(sentences) if len(ids)]
        lengths = [min(len(sentences[index]) + 2, self.max_length) for index in indices]
        # Raise the budget to the longest sentence if necessary, because `token_batches` rejects longer ones.
        budget = max(self.config.tokens_per_batch // beam, max(lengths, default=0))
        return [[indices[number] for number in batch] for batch in token_batches(lengths, budget)]

    def decode(
        self, backend: DecoderBackend, sentences: Sequence[Sequence[int]], settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        """Decode one batch, and return the hypotheses of each sentence, the best first.

        The result for a sentence does not depend on the other sentences of the batch, apart from rounding,
        which in bfloat16 can change a translation.
        """
        ids = self.vocabulary
        source, _ = collate(
            [(sentence, []) for sentence in sentences], ids.pad_id, ids.start_id, ids.end_id, self.max_length
        )
        lengths = (source != ids.pad_id).sum(dim=1)
        limits = torch.tensor([self.config.max_target_length(length) for length in lengths.tolist()])
        source = source.to(self.device)
        mask = padding_mask(source, ids.pad_id)
        return search(backend, source, mask, limits, settings, ids.start_id, ids.end_id)

    def decode_batches(
        self,
        backend: DecoderBackend,
        sentences: Sequence[Sequence[int]],
        batches: Sequence[Sequence[int]],
        settings: SearchSettings,
    ) -> list[tuple[int, list[Hypothesis]]]:
        """Decode the sentences in `batches`, which are lists of indices into `sentences`.

        Return the index and the hypotheses of each sentence. On a CPU, several batches are decoded in
        parallel.
        """

        def decode(batch: Sequence[int]) -> list[tuple[int, list[Hypothesis]]]:
            found = self.decode(backend, [sentences[index] for index in batch], settings)
            return list(zip(batch, found, strict=True))

        if self.device.type != "cpu":
            found = [decode(batch) for batch in batches]
        else:
            # Each search restores the module's mode when it ends, which would disturb searches in other
            # threads. So set evaluation mode once for all of them.
            with evaluating(backend.module):
                found = parallel_map(decode, split_batches(batches, settings.beam))
        return [each for batch in found for each in batch]

    def decode_all(
        self, backend: DecoderBackend, sentences: Sequence[Sequence[int]], settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        """Decode any number of sentences in batches. Return the hypotheses of each, in the given order.

        An empty sentence has one empty hypothesis.
        """
        found = [[Hypothesis([], 0.0, 0.0)] for _ in sentences]
        batches = self.batches(sentences, settings.beam)
        for index, hypotheses in self.decode_batches(backend, sentences, batches, settings):
            found[index] = hypotheses
        return found


def split_batches(batches: Sequence[Sequence[int]], beam: int) -> list[Sequence[int]]:
    """Split batches of sentences if there are too few to distribute them evenly among the threads.

    The order of the sentences is kept. Each sentence has `beam` hypotheses. All parts of a batch except the
    last have at least MIN_SPLIT_ROWS hypotheses.
    """
    threads = min(torch.get_num_threads(), MAX_PARALLEL_BATCHES)
    parts = math.ceil(BATCHES_PER_THREAD * threads / len(batches)) if threads > 1 and batches else 1
    found: list[Sequence[int]] = []
    for batch in batches:
        size = max(math.ceil(len(batch) / parts), math.ceil(MIN_SPLIT_ROWS / beam))
        found += [batch[first : first + size] for first in range(0, len(batch), size)]
    return found


def parallel_map(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call a function on every item in up to MAX_PARALLEL_BATCHES threads, and return the results in order.

    torch's threads are divided evenly among these threads. A decoding step consists of many small operations.
    Threads that share an operation wait for each other at its end, but threads that work on different batches
    don't. The last items are started first: if the items are sorted by size, the longest don't run alone at
    the end. Exceptions propagate unchanged.
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(items), MAX_PARALLEL_BATCHES)
    if workers < 2:
        return [function(item) for item in items]
    try:
        with ThreadPoolExecutor(workers, "decoding", torch.set_num_threads, (threads // workers,)) as pool:
            return list(pool.map(function, reversed(items)))[::-1]
    finally:
        # Restore the number for this thread and for threads that start later.
        torch.set_num_threads(threads)
