"""Wrong answers for lesson 08 that match no known misconception: the checks must not name one."""

import torch
from torch import nn

from course_lib.transformer import LabelSmoothingLoss, smooth_targets


def _loud(*arguments):
    raise RuntimeError("no")


class _Constant(LabelSmoothingLoss):
    def forward(self, logits, labels):
        return torch.ones((), dtype=logits.dtype)


class _ForEachWord(LabelSmoothingLoss):
    def forward(self, logits, labels):
        targets = smooth_targets(labels, self.vocab_size, self.pad_id, self.smoothing)
        return -(targets * logits.log_softmax(-1)).sum(-1)


class _Squares(LabelSmoothingLoss):
    def forward(self, logits, labels):
        targets = smooth_targets(labels, self.vocab_size, self.pad_id, self.smoothing)
        return (logits.softmax(-1) - targets).pow(2).mean()


class _Doubled(LabelSmoothingLoss):
    def forward(self, logits, labels):
        return 2 * super().forward(logits, labels)


class _Shifted(LabelSmoothingLoss):
    def forward(self, logits, labels):
        return super().forward(logits, labels.roll(1, dims=-1))


class _NoArguments(nn.Module):
    def forward(self, logits, labels):
        return logits.mean()


class _OtherName(nn.Module):
    def __init__(self, vocab_size, pad_id, smoothing=0.1):
        super().__init__()
        self.padding_index = pad_id
        self.loss = LabelSmoothingLoss(vocab_size, pad_id, smoothing)

    def forward(self, logits, labels):
        return self.loss(logits, labels)


UNRELATED = {
    "smooth_targets": (
        lambda labels, vocab_size, pad_id, smoothing: labels,
        lambda labels, vocab_size, pad_id, smoothing: torch.zeros(*labels.shape, vocab_size),
        lambda labels, vocab_size, pad_id, smoothing: torch.full((*labels.shape, vocab_size), 1 / vocab_size),
        lambda labels, vocab_size, pad_id, smoothing: smooth_targets(
            labels, vocab_size, pad_id, smoothing
        ).flip(-1),
        lambda labels, vocab_size, pad_id, smoothing: (
            smooth_targets(labels, vocab_size, pad_id, smoothing) + 1e-4
        ),
        lambda labels, vocab_size, pad_id: smooth_targets(labels, vocab_size, pad_id, 0.1),
        _loud,
        0.1,
    ),
    "LabelSmoothingLoss": (
        _Constant,
        _ForEachWord,
        _Squares,
        _Doubled,
        _Shifted,
        _NoArguments,
        _OtherName,
        _loud,
        None,
    ),
}
