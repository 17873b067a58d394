"""A student's own greedy decoding or beam search, for the translations that a run ends on.

It reads the whole beginning anew for every token, so the many translations on the way are left to the lab's
search, which keeps what it has computed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.student.parts import Parts
from course_lib.transformer.batching import collate
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.data.vocabularies import Vocabularies
from course_lib.translation.decoding import Hypothesis, SearchSettings, greatest_length
from course_lib.translation.model.precision import arithmetic

#: One batch: a model, sentences as ids, and how to search; for each sentence what was found, the best first.
Decode = Callable[[Any, Sequence[Sequence[int]], SearchSettings], list[list[Hypothesis]]]


def parts_of_search(beam: int) -> tuple[str, ...]:
    """Name the exercises that a search with so many beams is made of."""
    return ("greedy_decode",) if beam == 1 else ("length_penalty", "beam_search")


def own_search(
    parts: Parts, config: RunConfig, vocabularies: Vocabularies, device: torch.device
) -> Decode | None:
    """Make a search of a student's parts; None where none of those that the config needs is theirs."""
    if not set(parts_of_search(config.evaluation.beam_size)) & set(parts.yours):
        return None
    ids = vocabularies

    def decode(
        model: Any, sentences: Sequence[Sequence[int]], settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[] for _ in sentences]
        # Their length says when to stop: so what is written does not depend on what else is in the batch.
        by_length: dict[int, list[int]] = {}
        for index, sentence in enumerate(sentences):
            by_length.setdefault(len(sentence), []).append(index)
        for indices in by_length.values():
            for index, written in zip(
                indices, write(model, [sentences[i] for i in indices], settings), strict=True
            ):
                # What it cost is not among what it hands back.
                found[index] = [Hypothesis(_up_to(written[1:], ids.end_id), 0.0, 0.0)]
        return found

    def write(model: Any, sentences: list[Sequence[int]], settings: SearchSettings) -> list[list[int]]:
        pairs: list[tuple[Sequence[int], Sequence[int]]] = [(sentence, []) for sentence in sentences]
        source, _ = collate(pairs, ids.pad_id, ids.start_id, ids.end_id, config.data.max_length)
        source = source.to(device)
        asked = (model, source, parts["padding_mask"](source, ids.pad_id))
        ends = (greatest_length(source.shape[1]), ids.start_id, ids.end_id)
        with arithmetic(config.training.precision, device):
            if settings.beam == 1:
                target = parts["greedy_decode"](*asked, *ends)
            else:
                target = parts["beam_search"](*asked, settings.beam, *ends, settings.alpha)
        rows: list[list[int]] = target.tolist()
        return rows

    return decode


def _up_to(ids: list[int], end_id: int) -> list[int]:
    return ids[: ids.index(end_id) + 1] if end_id in ids else ids
