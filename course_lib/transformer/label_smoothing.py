"""Targets that are not quite sure: label smoothing, section 5.4 of "Attention Is All You Need"."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def smooth_targets(
    labels: Int[Tensor, "..."], vocab_size: int, pad_id: int, smoothing: float
) -> Float[Tensor, "... {vocab_size}"]:
    """Spread `smoothing` of each label's probability evenly over the whole vocabulary.

    Szegedy et al. 2016 (arXiv 1512.00567), section 7, as cited in section 5.4: smoothing / V on every class,
    and 1 - smoothing more on the label. Zeros where the label is padding.
    """
    padding = labels == pad_id
    targets = torch.full((*labels.shape, vocab_size), smoothing / vocab_size, device=labels.device)
    sure = targets.new_full((*labels.shape, 1), 1.0 - smoothing)
    targets.scatter_add_(-1, labels.masked_fill(padding, 0).long().unsqueeze(-1), sure)
    return targets.masked_fill(padding.unsqueeze(-1), 0.0)


class LabelSmoothingLoss(nn.Module):
    """Cross-entropy of the model's distribution against smoothed targets, as a mean over the real tokens."""

    def __init__(self, vocab_size: int, pad_id: int, smoothing: float = 0.1) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.pad_id = pad_id
        self.smoothing = smoothing

    def forward(self, logits: Float[Tensor, "*shape V"], labels: Int[Tensor, "*shape"]) -> Float[Tensor, ""]:
        """Give the mean loss in nats a token; zero where every label is padding."""
        targets = smooth_targets(labels, self.vocab_size, self.pad_id, self.smoothing).to(logits.dtype)
        real_tokens = (labels != self.pad_id).sum().clamp(min=1)
        costs = -targets * logits.log_softmax(dim=-1)
        # A class that the model rules out costs nothing where no probability lies; 0 times infinity is NaN.
        return costs.masked_fill(targets == 0, 0.0).sum() / real_tokens
