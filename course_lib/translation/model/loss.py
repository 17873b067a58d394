"""The loss of a batch: the sum over its labels, without padding, and SimCut's regularisation if enabled."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.transformer import LabelSmoothingLoss, Transformer
from course_lib.translation.configs.schema import Precision
from course_lib.translation.model.fast_layers import (
    MergedWeights,
    hidden_with_fused_attention,
    refresh,
    use_fast_layers,
)
from course_lib.translation.model.fused import (
    chunk_bytes,
    fused_decoder_mask,
    fused_smoothed_loss,
    use_fused_layers,
)
from course_lib.translation.model.precision import autocast, product_dtype
from course_lib.translation.model.seq2seq import REFERENCE, Components, TransformerModel


def real_positions(
    target: Int[Tensor, "B T"], pad_id: int, components: Components = REFERENCE
) -> Int[Tensor, "N"]:
    """Return the positions of the labels that are not padding, as indices into the flattened labels."""
    return (components.shift_target(target)[1].flatten() != pad_id).nonzero().squeeze(1)


class LossSum(nn.Module):
    """A model and its loss as one module, which sums the loss over the labels that are not padding.

    DDP wraps the whole module, because it expects one forward pass for each backward pass. The loss is a sum
    because with a mean, a token in a small batch would have more weight than a token in a large one. During
    training, the module adds `simcut_alpha` times SimCut's divergence between the predictions for the batch
    and for a copy in which the embedding of each token is zero with probability `simcut_p`. `components`
    compute the masks and the labels. The forward pass runs under autocast if `precision` is mixed. With
    `compiled`, the loss is compiled during training.
    """

    def __init__(
        self,
        model: TransformerModel,
        loss: nn.Module,
        precision: Precision,
        components: Components = REFERENCE,
        simcut_alpha: float = 0.0,
        simcut_p: float = 0.05,
        compiled: bool = False,
    ) -> None:
        super().__init__()
        self.model: TransformerModel = model
        self.loss = loss
        self.pad_id: int = loss.pad_id  # type: ignore[assignment]
        self.precision: Precision = precision
        if components.decoder_mask is REFERENCE.decoder_mask:
            components = replace(components, decoder_mask=fused_decoder_mask)
        self.components = components
        self.simcut_alpha = simcut_alpha
        self.simcut_p = simcut_p
        self._compiled = compiled
        self._weights: Sequence[MergedWeights] = ()
        self._memory_weights: MergedWeights | None = None

    def use_fast_layers(self, device: torch.device) -> None:
        """Replace the reference's layers with faster ones. After this, call `refresh` before each update."""
        use_fused_layers(self)
        assert isinstance(self.model, nn.Module), "a TransformerModel is a module"
        self._weights, self._memory_weights = use_fast_layers(self.model, self._dtype(device))

    def refresh(self) -> None:
        """Update the fast layers' converted copies of the weights."""
        refresh(self._weights)

    def stop_compiling(self) -> None:
        """Compute the loss without the compiler from now on."""
        self._compiled = False

    def logits_bytes(self, positions: int, device: torch.device) -> int:
        """Return the memory in bytes for the logits of a batch with the given number of labels.

        SimCut saves its logits for the backward pass, so they count as activations, and the result is 0.
        """
        classes = self.model.generator.weight.shape[0]
        if self.simcut_alpha:
            return 0
        return chunk_bytes(positions, classes, self._dtype(device), device, self._compiled)

    def _dtype(self, device: torch.device) -> torch.dtype:
        own: torch.dtype = self.model.generator.weight.dtype
        return product_dtype(self.precision, device) or own

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        positions: Int[Tensor, "N"] | None = None,
    ) -> Float[Tensor, ""]:
        """Sum the loss over the labels that are not padding.

        `positions` is the result of `real_positions`. Computing it on the CPU beforehand avoids a
        synchronisation with the GPU.
        """
        if positions is None:
            positions = real_positions(target, self.pad_id, self.components)
        with autocast(self.precision, source.device):
            if self.training and self.simcut_alpha:
                return self._simcut_loss(source, target, positions)
            hidden, labels = self._hidden_and_labels(source, target, positions)
            generator = self.model.generator
            # Use the fused loss only for the reference's classes: a student's generator may have no bias, and
            # a subclass may compute something different.
            if (
                type(self.loss) is LabelSmoothingLoss
                and type(generator) is nn.Linear
                and generator.bias is not None
            ):
                smoothing, dtype = self.loss.smoothing, self._dtype(hidden.device)
                weights = generator.weight, generator.bias
                compiled = self._compiled and self.training
                return fused_smoothed_loss(hidden, *weights, labels, smoothing, dtype, compiled)
            return self._loss_sum(generator(hidden), labels)

    def _simcut_loss(self, source: Tensor, target: Tensor, positions: Tensor) -> Tensor:
        both = torch.cat([positions, positions + target[:, 1:].numel()])
        with token_cutoff(self.model, self.simcut_p):
            hidden, labels = self._hidden_and_labels(source.repeat(2, 1), target.repeat(2, 1), both)
        plain, cut = _at_least_float32(self.model.generator(hidden)).chunk(2)
        return self._loss_sum(plain, labels.chunk(2)[0]) + self.simcut_alpha * divergence_sum(plain, cut)

    def _hidden_and_labels(self, source: Tensor, target: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the decoder's output and the label at each of the given positions.

        The generator, which is by far the widest layer, then computes no logits for padding.
        """
        components = self.components
        decoder_input, labels = components.shift_target(target)
        source_mask = components.padding_mask(source, self.pad_id)
        if self._memory_weights is not None:
            assert isinstance(self.model, Transformer), "only its layers were replaced"
            inputs = source, source_mask, decoder_input, self._dtype(source.device)
            hidden = hidden_with_fused_attention(self.model, *inputs, self._memory_weights)
        else:
            memory = self.model.encode(source, source_mask)
            mask = components.decoder_mask(decoder_input, self.pad_id)
            hidden = self.model.decode(memory, source_mask, decoder_input, mask)
        return hidden.flatten(0, 1).index_select(0, positions), labels.flatten().index_select(0, positions)

    def _loss_sum(self, logits: Tensor, labels: Tensor) -> Tensor:
        logits = _at_least_float32(logits)
        if type(self.loss) is LabelSmoothingLoss:
            return F.cross_entropy(logits, labels, label_smoothing=self.loss.smoothing, reduction="sum")
        mean: Tensor = self.loss(logits, labels)
        return mean * len(labels)


def _at_least_float32(logits: Tensor) -> Tensor:
    """Convert 16-bit logits to float32: bfloat16 can't represent a smoothed target such as 0.9."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


@contextlib.contextmanager
def token_cutoff(model: TransformerModel, p: float) -> Iterator[None]:
    """Within the block, zero the embedding of each token in the second half of a batch with probability p.

    SimCut (Gao et al. 2022, "Bi-SimCut", arXiv 2206.02368) trains a model to make the same predictions for a
    sentence and for a copy in which some tokens are missing. The tokens are drawn with torch's generator.
    """

    def cut(module: nn.Module, tokens: Any, vectors: Tensor) -> Tensor:
        kept = torch.rand(vectors.shape[:-1], device=vectors.device) >= p
        kept[: len(kept) // 2] = True
        return vectors * kept.unsqueeze(-1)

    embeddings = {model.source_embedding, model.target_embedding}
    hooks = [embedding.register_forward_hook(cut) for embedding in embeddings]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def divergence_sum(plain: Float[Tensor, "N V"], cut: Float[Tensor, "N V"]) -> Float[Tensor, ""]:
    """Sum the Kullback-Leibler divergence KL(plain || cut) of two predictions, as logits, over N positions.

    Gradients flow into both, because the SimCut paper found that this improves the results.
    """
    return F.kl_div(cut.log_softmax(-1), plain.log_softmax(-1), reduction="sum", log_target=True)
