"""Label smoothing: section 5.4 of "Attention Is All You Need"."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def smooth_targets(
    labels: Int[Tensor, "..."], vocab_size: int, pad_id: int, smoothing: float
) -> Float[Tensor, "... {vocab_size}"]:
    """Return target distributions in which `smoothing` is spread evenly over the whole vocabulary.

    As in Szegedy et al. 2016 (arXiv 1512.00567), section 7, which section 5.4 cites, every class gets
    smoothing / V, and the label gets 1 - smoothing in addition. Rows whose label is padding are all zeros.
    The result is on the device of the labels.
    """
    padding = labels == pad_id
    # The padding id may be outside the vocabulary: -100 is common, but one_hot would reject it.
    one_hot = torch.nn.functional.one_hot(labels.masked_fill(padding, 0).long(), vocab_size)
    targets = (1.0 - smoothing) * one_hot + smoothing / vocab_size
    return targets.masked_fill(padding.unsqueeze(-1), 0.0)


class LabelSmoothingLoss(nn.Module):
    """Cross-entropy with smoothed targets, averaged over the labels that are not padding, on any device."""

    def __init__(self, vocab_size: int, pad_id: int, smoothing: float = 0.1) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.pad_id = pad_id
        self.smoothing = smoothing

    def forward(self, logits: Float[Tensor, "*shape V"], labels: Int[Tensor, "*shape"]) -> Float[Tensor, ""]:
        """Return the mean loss in nats per token; zero, with zero gradients, if every label is padding."""
        targets = smooth_targets(labels, self.vocab_size, self.pad_id, self.smoothing).to(logits.dtype)
        real_tokens = (labels != self.pad_id).sum().clamp(min=1)
        costs = -targets * logits.log_softmax(dim=-1)
        # A target of 0 contributes nothing, even if the log-probability is minus infinity and the
        # product is therefore NaN.
        return costs.masked_fill(targets == 0, 0.0).sum() / real_tokens
