"""A Transformer with its loss, as the lab trains it."""

from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.transformer import TransformerConfig
from course_lib.translation.config import ModelConfig
from course_lib.translation.fused_attention import fused_attention
from course_lib.translation.pieces import REFERENCE, Pieces

Precision = Literal["float32", "bfloat16", "float64"]


def build_transformer(
    config: ModelConfig, source_size: int, target_size: int, pieces: Pieces = REFERENCE
) -> Any:
    """Build the model that the config describes, for vocabularies of these sizes.

    It is a `Transformer`, or what a student's pieces make in its place. Tied, it needs one vocabulary.
    """
    sizes = TransformerConfig(
        layers=config.layers,
        d_model=config.d_model,
        heads=config.heads,
        d_ff=config.d_ff,
        dropout=config.dropout,
        norm_first=config.norm_first,
        attention=fused_attention if config.attention == "fused" else pieces.attention,
    )
    model = pieces.transformer(source_size, target_size, sizes)
    return pieces.tie_embeddings(model) if config.tied else model


def arithmetic(precision: Precision, device: torch.device) -> torch.autocast:
    """Give the context of a forward pass: matrix products in bfloat16, or all as the weights are."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


class LossSum(nn.Module):
    """A model and its loss as one module: source and target in, the sum of the loss over the real tokens out.

    DDP wraps it whole, since it counts on one forward pass for each backward pass. A sum and not a mean: a
    mean over one process's batch would weigh its tokens by what the batch happens to hold.
    """

    def __init__(self, model: Any, loss: nn.Module, precision: Precision, pieces: Pieces = REFERENCE) -> None:
        super().__init__()
        # Any: a student's modules have no type that says what they offer.
        self.model: Any = model
        self.loss: Any = loss
        self.precision: Precision = precision
        self.pieces = pieces

    def forward(self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
        """Sum the loss over the real tokens of the target."""
        pieces, pad_id = self.pieces, self.loss.pad_id
        decoder_input, labels = pieces.shift_target(target)
        real = labels != pad_id
        with arithmetic(self.precision, source.device):
            source_mask = pieces.padding_mask(source, pad_id)
            memory = self.model.encode(source, source_mask)
            hidden = self.model.decode(
                memory, source_mask, decoder_input, pieces.decoder_mask(decoder_input, pad_id)
            )
            # The generator is the widest layer by far: padding need not pass through it.
            logits = self.model.generator(hidden[real])
        # Out of bfloat16 before the loss: a smoothed target such as 0.9 has no exact place there.
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return self.loss(logits, labels[real]) * real.sum()
