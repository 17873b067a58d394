"""How fast a student's parts are, beside what the lab trains otherwise."""

import time
from collections.abc import Sequence

import torch

from course_lib.transformer.batching import collate
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.data.epoch_plan import IdPair
from course_lib.translation.data.vocabularies import Vocabularies
from course_lib.translation.model.components import REFERENCE, Pieces
from course_lib.translation.model.fused import use_kernels
from course_lib.translation.model.trainable import LossSum, build_transformer

#: Enough to keep the device at work, and few enough that a large model needs no minute.
_SENTENCES = 24
_ROUNDS = 3


def relative_speed(
    config: RunConfig,
    pieces: Pieces,
    pairs: Sequence[IdPair],
    vocabularies: Vocabularies,
    device: torch.device,
) -> float:
    """Give the speed of these pieces as a share of the reference's, both measured on the same real sentences.

    A pass forward and back is measured, each a few times in turn; the fastest of each counts.
    """
    ids = vocabularies
    some = [pairs[number] for number in range(min(len(pairs), _SENTENCES))]
    source, target = (
        side.to(device)
        for side in collate(some, ids.pad_id, ids.start_id, ids.end_id, config.data.max_length)
    )
    measured = []
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for each in (pieces, REFERENCE):
            model = build_transformer(config.model, len(ids.source), len(ids.target), each).to(device)
            use_kernels(model)
            if config.training.precision == "float64":
                model.double()
            loss = each.loss(len(ids.target), ids.pad_id, config.training.label_smoothing)
            measured.append(LossSum(model, loss, config.training.precision, each))
        seconds = [[_seconds(loss_sum, source, target) for loss_sum in measured] for _ in range(_ROUNDS + 1)]
    # The first round is for what is made once: memory, kernels.
    own, reference = (min(column) for column in zip(*seconds[1:], strict=True))
    return reference / own


def _seconds(loss_sum: LossSum, source: torch.Tensor, target: torch.Tensor) -> float:
    begin = time.perf_counter()
    loss_sum.zero_grad()
    loss_sum(source, target).backward()
    if source.is_cuda:
        torch.cuda.synchronize(source.device)
    return time.perf_counter() - begin
