"""One update of the weights: section 5 of "Attention Is All You Need"."""

from collections.abc import Iterable

from jaxtyping import Int
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from course_lib.transformer.label_smoothing import LabelSmoothingLoss
from course_lib.transformer.masks import decoder_mask, padding_mask, shift_target
from course_lib.transformer.model import Transformer


def train_step(
    model: Transformer,
    loss: LabelSmoothingLoss,
    micro_batches: Iterable[tuple[Int[Tensor, "_ _"], Int[Tensor, "_ _"]]],
    optimizer: Optimizer,
    scheduler: LRScheduler,
) -> float:
    """Make one update from one batch, which may be split into micro-batches to save memory. Return its loss.

    Each micro-batch is a pair of source and target, as returned by `collate` (lesson 10); `micro_batches` may
    be a generator. `loss(logits, labels)` returns the mean loss over the labels that are not padding;
    `loss.pad_id` is the padding id of source and target. The gradient and the returned loss are means over
    all such labels of the batch, so they don't depend on the split into micro-batches. At most one
    micro-batch's graph is alive at a time. The model is used in training mode, through `encode`, `decode` and
    `generator`, on any device. Old gradients are cleared first, and the scheduler takes one step.
    """
    pairs = list(micro_batches)
    pad_id = loss.pad_id
    # Micro-batches have different numbers of tokens, so the mean of their means would be wrong.
    # The 1 prevents 0 / 0 if every label is padding.
    real_tokens = max(1, sum(int((shift_target(target)[1] != pad_id).sum()) for _, target in pairs))
    model.train()
    optimizer.zero_grad()
    batch_loss = 0.0
    for source, target in pairs:
        decoder_input, labels = shift_target(target)
        source_mask = padding_mask(source, pad_id)
        memory = model.encode(source, source_mask)
        hidden = model.decode(memory, source_mask, decoder_input, decoder_mask(decoder_input, pad_id))
        share = (labels != pad_id).sum() / real_tokens
        micro_loss = loss(model.generator(hidden), labels) * share
        micro_loss.backward()
        batch_loss += micro_loss.item()
    optimizer.step()
    scheduler.step()
    return batch_loss
