"""A Transformer with its loss, as the lab trains it."""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.errors import BadInputError
from course_lib.transformer import LabelSmoothingLoss, TransformerConfig
from course_lib.translation.configs.schema import ModelConfig
from course_lib.translation.model.components import REFERENCE, Pieces
from course_lib.translation.model.fused.attention import fused_attention
from course_lib.translation.model.fused.masks import decoder_mask_on_device
from course_lib.translation.model.fused.smoothed_loss import smoothed_loss_sum
from course_lib.translation.model.precision import Precision, arithmetic, settled
from course_lib.translation.training.simcut import divergence_sum, second_half_cut


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
    if config.inner_dropout is not None:
        _set_inner_dropout(model, config.inner_dropout)
    return pieces.tie_embeddings(model) if config.tie_embeddings else model


def _set_inner_dropout(model: Any, rate: float) -> None:
    """Give the sublayers a dropout of their own; a student's too, which have the contract's names."""
    for layer in (*model.encoder_layers, *model.decoder_layers):
        for name, sublayer in layer.named_children():
            if name not in ("self_attention", "cross_attention", "feed_forward"):
                continue
            inside = [part for part in sublayer.modules() if isinstance(part, nn.Dropout)]
            if not inside:
                raise BadInputError(
                    f"model.inner_dropout: expected an nn.Dropout inside {type(sublayer).__name__}, which is "
                    f"the {name} of {type(layer).__name__}, and there is none; leave the key out"
                )
            for part in inside:
                part.p = rate


def real_places(target: Int[Tensor, "B T"], pad_id: int, pieces: Pieces = REFERENCE) -> Int[Tensor, "N"]:
    """Number the labels that are no padding, counting through the batch row by row."""
    return (pieces.shift_target(target)[1].flatten() != pad_id).nonzero().squeeze(1)


class LossSum(nn.Module):
    """A model and its loss as one module: source and target in, the sum of the loss over the real tokens out.

    DDP wraps it whole, since it counts on one forward pass for each backward pass. A sum and not a mean: a
    mean over one process's batch would weigh its tokens by what the batch happens to hold. In training,
    `simcut_alpha` adds as many times SimCut's divergence.
    """

    def __init__(
        self,
        model: Any,
        loss: Any,
        precision: Precision,
        pieces: Pieces = REFERENCE,
        simcut_alpha: float = 0.0,
        simcut_p: float = 0.05,
    ) -> None:
        super().__init__()
        # Any: a student's modules have no type that says what they offer.
        self.model: Any = model
        self.loss: Any = loss
        self.precision: Precision = precision
        # The reference's own would be copied from the CPU at every batch.
        is_reference = pieces.decoder_mask is REFERENCE.decoder_mask
        self.pieces = replace(pieces, decoder_mask=decoder_mask_on_device) if is_reference else pieces
        self.simcut_alpha = simcut_alpha
        self.simcut_p = simcut_p

    def forward(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], places: Int[Tensor, "N"] | None = None
    ) -> Float[Tensor, ""]:
        """Sum the loss over the real tokens of the target.

        `places` is what `real_places` gives. Who has it from the CPU spares a GPU the wait for their number.
        """
        if places is None:
            places = real_places(target, self.loss.pad_id, self.pieces)
        with arithmetic(self.precision, source.device):
            if self.training and self.simcut_alpha:
                return self._with_simcut(source, target, places)
            hidden, labels = self._decoded(source, target, places)
            if self._is_reference and not torch.compiler.is_compiling():
                generator = self.model.generator
                return smoothed_loss_sum(
                    hidden, generator.weight, generator.bias, labels, self.loss.smoothing, self._dtype(hidden)
                )
            return self._loss_sum(self.model.generator(hidden), labels)

    def _with_simcut(self, source: Tensor, target: Tensor, places: Tensor) -> Tensor:
        places_of_both = torch.cat([places, places + target[:, 1:].numel()])
        with second_half_cut(self.model, self.simcut_p):
            hidden, labels = self._decoded(source.repeat(2, 1), target.repeat(2, 1), places_of_both)
        whole, cut = _exact(self.model.generator(hidden)).chunk(2)
        return self._loss_sum(whole, labels.chunk(2)[0]) + self.simcut_alpha * divergence_sum(whole, cut)

    def _decoded(self, source: Tensor, target: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Give the decoder's output and the label at each of these places.

        The generator is the widest layer by far: padding need not pass through it.
        """
        pieces, pad_id = self.pieces, self.loss.pad_id
        decoder_input, labels = pieces.shift_target(target)
        source_mask = pieces.padding_mask(source, pad_id)
        memory = self.model.encode(source, source_mask)
        mask = pieces.decoder_mask(decoder_input, pad_id)
        hidden = self.model.decode(memory, source_mask, decoder_input, mask)
        return hidden.flatten(0, 1).index_select(0, places), labels.flatten().index_select(0, places)

    def _loss_sum(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self._is_reference:
            return F.cross_entropy(
                _exact(logits), labels, label_smoothing=self.loss.smoothing, reduction="sum"
            )
        return self.loss(_exact(logits), labels) * len(labels)

    @property
    def _is_reference(self) -> bool:
        """Whether loss and generator are those whose sum is known to be had for less."""
        return type(self.loss) is LabelSmoothingLoss and type(self.model.generator) is nn.Linear

    def _dtype(self, hidden: Tensor) -> torch.dtype:
        bfloat16 = settled(self.precision, hidden.device) == "bfloat16"
        return torch.bfloat16 if bfloat16 else self.model.generator.weight.dtype


def _exact(logits: Tensor) -> Tensor:
    """Take logits out of bfloat16 before the loss: a smoothed target such as 0.9 has no exact place there."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
