"""Correct answers for lesson 08, written differently: the checks must accept all of them."""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.transformer import smooth_targets


def targets_by_one_hot(labels, vocab_size, pad_id, smoothing):
    sure = F.one_hot(labels, vocab_size).float()
    return (sure * (1 - smoothing) + smoothing / vocab_size) * (labels != pad_id).unsqueeze(-1)


def targets_by_comparison(labels, vocab_size, pad_id, smoothing):
    is_label = labels[..., None] == torch.arange(vocab_size, device=labels.device)
    targets = torch.where(is_label, 1 - smoothing + smoothing / vocab_size, smoothing / vocab_size)
    return torch.where(labels[..., None] == pad_id, torch.zeros(()), targets)


def targets_in_double(labels, vocab_size, pad_id, smoothing):
    one_hot = torch.eye(vocab_size, dtype=torch.float64, device=labels.device)[labels]
    targets = one_hot * (1 - smoothing) + smoothing / vocab_size
    targets[labels == pad_id] = 0
    return targets


def targets_by_overwriting(labels, vocab_size, pad_id, smoothing):
    share = smoothing / vocab_size
    targets = torch.full((labels.numel(), vocab_size), share, device=labels.device)
    targets.scatter_(1, labels.reshape(-1, 1), 1.0 - smoothing + share)
    targets[labels.reshape(-1) == pad_id] = 0.0
    return targets.view(*labels.shape, vocab_size)


def targets_by_loop(labels, vocab_size, pad_id, smoothing):
    rows = []
    for label in labels.reshape(-1).tolist():
        row = [0.0 if label == pad_id else smoothing / vocab_size] * vocab_size
        if label != pad_id:
            row[label] += 1.0 - smoothing
        rows.append(row)
    return torch.tensor(rows, device=labels.device).reshape(*labels.shape, vocab_size)


def targets_by_lerp(labels, vocab_size, pad_id, smoothing):
    table = torch.lerp(torch.eye(vocab_size, device=labels.device), torch.full((), 1 / vocab_size), smoothing)
    table[pad_id] = 0.0
    return F.embedding(labels, table)


class LossOfGathered(nn.Module):
    """A loss without target distributions: the label's term and the mean over the classes suffice."""

    def __init__(self, vocab_size, pad_id, smoothing=0.1):
        super().__init__()
        self.pad_id = pad_id
        self.epsilon = smoothing

    def forward(self, logits, labels):
        log_probs = torch.log_softmax(logits, dim=2)
        of_label = log_probs.gather(2, labels.unsqueeze(2)).squeeze(2)
        losses = -(1 - self.epsilon) * of_label - self.epsilon * log_probs.mean(dim=2)
        real = labels.ne(self.pad_id)
        return losses[real].sum() / real.sum().clamp(min=1)


class LossOfSelected(nn.Module):
    """A loss that selects the real tokens first, and keeps what it needs in a buffer."""

    def __init__(self, vocab_size, pad_id, smoothing=0.1):
        super().__init__()
        self.vocab_size, self.smoothing = vocab_size, smoothing
        self.register_buffer("pad_id", torch.tensor(pad_id))

    def forward(self, logits, labels):
        kept = labels != self.pad_id
        logits, labels = logits[kept], labels[kept]
        targets = F.one_hot(labels, self.vocab_size) * (1 - self.smoothing) + self.smoothing / self.vocab_size
        log_probs = logits - logits.logsumexp(dim=-1, keepdim=True)
        return torch.einsum("nv,nv->", -targets.to(logits.dtype), log_probs) / max(len(labels), 1)


class LossBySentences(nn.Module):
    def __init__(self, vocab_size, pad_id, smoothing=0.1):
        super().__init__()
        self.vocab_size = vocab_size
        self.pad_id = pad_id
        self.smoothing = smoothing

    def forward(self, logits, labels):
        total, count = 0.0 * logits.sum(), 0
        for sentence, words in zip(logits, labels, strict=True):
            for scores, word in zip(sentence, words, strict=True):
                if word != self.pad_id:
                    target = smooth_targets(word, self.vocab_size, self.pad_id, self.smoothing)
                    total = total - target.to(logits.dtype) @ F.log_softmax(scores, dim=-1)
                    count += 1
        return total / (count or 1)


class LossBySoftCrossEntropy(nn.Module):
    """torch's cross-entropy with the student's own smoothed targets."""

    def __init__(self, vocab_size, pad_id, smoothing=0.1):
        super().__init__()
        self.vocab_size = vocab_size
        self.pad_id = pad_id
        self.smoothing = smoothing

    def forward(self, logits, labels):
        targets = smooth_targets(labels, self.vocab_size, self.pad_id, self.smoothing).to(logits)
        total = F.cross_entropy(logits.transpose(1, 2), targets.transpose(1, 2), reduction="sum")
        return total / (labels != self.pad_id).sum().clamp_min(1)


class LossByDivergence(nn.Module):
    """A loss that computes the cross-entropy as the divergence plus the entropy of the targets."""

    def __init__(self, vocab_size, pad_id, smoothing=0.1):
        super().__init__()
        self.pad_id = pad_id
        self.sizes = vocab_size, pad_id, smoothing

    def forward(self, logits, labels):
        targets = smooth_targets(labels, *self.sizes).to(logits.dtype)
        divergence = F.kl_div(F.log_softmax(logits, dim=-1), targets, reduction="sum")
        words = int(torch.count_nonzero(labels - self.pad_id))
        return (divergence - torch.xlogy(targets, targets).sum()) / (words if words else 1)


class LossOfRows(LossByDivergence):
    """A loss that flattens the logits with `view`, and whose zero doesn't depend on the logits."""

    def forward(self, logits, labels):
        vocab_size, pad_id, smoothing = self.sizes
        rows, labels = logits.view(-1, vocab_size), labels.reshape(-1)
        if (labels == pad_id).all():
            return torch.zeros((), dtype=logits.dtype, requires_grad=True)
        of_labels = F.cross_entropy(rows, labels, ignore_index=pad_id)
        even = -rows.log_softmax(dim=1)[labels != pad_id].mean()
        return (1 - smoothing) * of_labels + smoothing * even


class LossWithATable(nn.Module):
    """A loss that keeps the targets of all labels in a buffer, and the last ones in an attribute."""

    def __init__(self, vocab_size, pad_id, smoothing=0.1):
        super().__init__()
        self.pad_id = pad_id
        self.register_buffer("table", smooth_targets(torch.arange(vocab_size), vocab_size, pad_id, smoothing))
        self.table[pad_id] = 0

    def forward(self, logits, labels):
        self.last = self.table[labels].to(logits.dtype)
        return -torch.sum(self.last * logits.log_softmax(-1)) / labels.ne(self.pad_id).sum().clamp(min=1)


VARIANTS = {
    "smooth_targets": (
        targets_by_one_hot,
        targets_by_comparison,
        targets_in_double,
        targets_by_overwriting,
        targets_by_loop,
        targets_by_lerp,
    ),
    "LabelSmoothingLoss": (
        LossOfGathered,
        LossOfSelected,
        LossBySentences,
        LossBySoftCrossEntropy,
        LossByDivergence,
        LossOfRows,
        LossWithATable,
    ),
}
