"""One batch on the device that computes with it, and what is to be counted of it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.translation.configs.schema import ModelConfig
from course_lib.translation.model.components import Pieces
from course_lib.translation.model.flops import training_work
from course_lib.translation.model.trainable import real_places


@dataclass(frozen=True)
class DeviceBatch:
    """Matrices of ids on a device. All numbers were counted on the CPU: a GPU is not waited for."""

    source: Tensor
    target: Tensor
    places: Tensor
    """Which labels are no padding, as `LossSum` takes them."""
    target_tokens: int
    """Labels that are no padding: what the loss is a mean over."""
    real_slots: int
    """Places in both matrices that hold a token."""
    slots: int
    """All places in both."""
    work: float
    """Operations of the matrix products of an update with it."""


def move_batch(
    source: Tensor,
    target: Tensor,
    device: torch.device,
    model: ModelConfig,
    target_vocabulary: int,
    pad_id: int,
    pieces: Pieces,
) -> DeviceBatch:
    """Count what is in a batch that `collate` gave, and send it to the device without waiting for it."""
    places = real_places(target, pad_id, pieces)
    source_lengths, target_lengths = (source != pad_id).sum(1), (target != pad_id).sum(1)

    def moved(matrix: Tensor) -> Tensor:
        # Only from pinned memory does a copy run beside the computing.
        return (matrix.pin_memory() if device.type == "cuda" else matrix).to(device, non_blocking=True)

    return DeviceBatch(
        moved(source),
        moved(target),
        moved(places),
        target_tokens=len(places),
        real_slots=int(source_lengths.sum() + target_lengths.sum()),
        slots=source.numel() + target.numel(),
        # The decoder reads one token less than the target has.
        work=training_work(model, target_vocabulary, source_lengths, target_lengths - 1),
    )
