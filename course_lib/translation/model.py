"""The reference Transformer with its loss, as the lab trains it."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.transformer import (
    LabelSmoothingLoss,
    Transformer,
    TransformerConfig,
    decoder_mask,
    padding_mask,
    scaled_dot_product_attention,
    shift_target,
    tie_embeddings,
)
from course_lib.translation.config import ModelConfig
from course_lib.translation.fused_attention import fused_attention

Precision = Literal["float32", "bfloat16", "float64"]


def build_transformer(config: ModelConfig, vocabulary_size: int) -> Transformer:
    """Build the model that the config describes, with one vocabulary for both languages."""
    sizes = TransformerConfig(
        layers=config.layers,
        d_model=config.d_model,
        heads=config.heads,
        d_ff=config.d_ff,
        dropout=config.dropout,
        norm_first=config.norm_first,
        attention=fused_attention if config.attention == "fused" else scaled_dot_product_attention,
    )
    model = Transformer(vocabulary_size, vocabulary_size, sizes)
    return tie_embeddings(model) if config.tied else model


def arithmetic(precision: Precision, device: torch.device) -> torch.autocast:
    """Give the context of a forward pass: matrix products in bfloat16, or all as the weights are."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


class LossSum(nn.Module):
    """A model and its loss as one module: source and target in, the sum of the loss over the real tokens out.

    DDP wraps it whole, since it counts on one forward pass for each backward pass. A sum and not a mean: a
    mean over one process's batch would weigh its tokens by what the batch happens to hold.
    """

    def __init__(self, model: Transformer, loss: LabelSmoothingLoss, precision: Precision) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.precision: Precision = precision

    def forward(self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
        """Sum the loss over the real tokens of the target."""
        pad_id = self.loss.pad_id
        decoder_input, labels = shift_target(target)
        real = labels != pad_id
        with arithmetic(self.precision, source.device):
            source_mask = padding_mask(source, pad_id)
            memory = self.model.encode(source, source_mask)
            hidden = self.model.decode(
                memory, source_mask, decoder_input, decoder_mask(decoder_input, pad_id)
            )
            # The generator is the widest layer by far: padding need not pass through it.
            logits = self.model.generator(hidden[real])
        # Out of bfloat16 before the loss: a smoothed target such as 0.9 has no exact place there.
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return self.loss(logits, labels[real]) * real.sum()
