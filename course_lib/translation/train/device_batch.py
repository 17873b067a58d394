"""One batch on the training device, with the counts that the metrics need."""

from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.translation.configs.schema import ModelConfig
from course_lib.translation.model.flops import training_flops
from course_lib.translation.model.loss import real_positions
from course_lib.translation.model.seq2seq import Components


@dataclass(frozen=True)
class DeviceBatch:
    """A batch of token ids on a device. The counts are computed on the CPU, so they don't wait for a GPU."""

    source: Tensor
    target: Tensor
    positions: Tensor
    """The positions of the labels that are not padding, as `LossSum` expects them."""
    target_tokens: int
    """The number of labels that are not padding. An update's loss is divided by the sum over its batches."""
    tokens: int
    """The number of tokens in both matrices that are not padding."""
    tokens_with_padding: int
    """The number of elements of both matrices, including padding."""
    flops: float
    """The floating-point operations of all matrix products in a forward and a backward pass."""


def move_to_device(
    source: Tensor,
    target: Tensor,
    device: torch.device,
    model: ModelConfig,
    target_vocabulary: int,
    pad_id: int,
    components: Components,
) -> DeviceBatch:
    """Count the tokens of a collated batch, start copying it to the device, and return it as a DeviceBatch.

    `target_vocabulary` is the size of the vocabulary.
    """
    source_lengths, target_lengths = (source != pad_id).sum(1), (target != pad_id).sum(1)
    positions = real_positions(target, pad_id, components)

    def move(matrix: Tensor) -> Tensor:
        # Only copies from pinned memory overlap with computation.
        return (matrix.pin_memory() if device.type == "cuda" else matrix).to(device, non_blocking=True)

    return DeviceBatch(
        move(source),
        move(target),
        move(positions),
        target_tokens=len(positions),
        tokens=int(source_lengths.sum() + target_lengths.sum()),
        tokens_with_padding=source.numel() + target.numel(),
        # The decoder's input is one token shorter than the target.
        flops=training_flops(model, target_vocabulary, source_lengths, target_lengths - 1),
    )
