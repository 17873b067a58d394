"""The generator and lesson 08's loss in one: logits and their gradient, some rows at a time.

With z the logits of a position, y its label and e the smoothing, the cross-entropy against targets of
e / V everywhere and 1 - e more at y is

    logsumexp(z) - (1 - e) z[y] - e mean(z),

and its gradient is softmax(z) - e / V, less 1 - e at y. So the smoothed targets need not exist, and no
more than a few rows of logits at a time: both would be as large as positions times vocabulary.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

#: Logits held at once: what fits a CPU's cache, and what keeps a GPU busy.
_LOGITS = {"cpu": 2**20, "cuda": 2**27}


def smoothed_loss_sum(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, "V"],
    labels: Int[Tensor, "N"],
    smoothing: float,
    dtype: torch.dtype,
) -> Float[Tensor, ""]:
    """Sum, over N positions, the cross-entropy of `hidden @ weight.T + bias` against smoothed labels.

    It is N times lesson 08's `LabelSmoothingLoss`, where no label is padding. Matrix products are computed in
    `dtype`, all else in float32 or better.
    """
    # Inside `forward` gradients are always off, so it has to be told.
    learning = torch.is_grad_enabled()
    total: Tensor = _SmoothedLossSum.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, labels, smoothing, dtype, learning
    )
    return total


class _SmoothedLossSum(torch.autograd.Function):
    """The gradients are computed along with the loss: the logits are at hand only then."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        labels: Tensor,
        smoothing: float,
        dtype: torch.dtype,
        learning: bool,
    ) -> Tensor:
        exact = torch.promote_types(dtype, torch.float32)
        classes = weight.shape[0]
        rows = max(1, _LOGITS.get(hidden.device.type, 2**24) // classes)
        total = torch.zeros((), dtype=exact, device=hidden.device)
        hidden_gradient = torch.empty_like(hidden)
        weight_gradient = torch.zeros_like(weight, dtype=exact) if learning else None
        bias_gradient = torch.zeros_like(bias, dtype=exact) if learning else None
        with torch.autocast(hidden.device.type, enabled=False):
            matrix, offset = weight.to(dtype), bias.to(dtype)
            for first in range(0, len(labels), rows):
                some = slice(first, first + rows)
                x, y = hidden[some].to(dtype), labels[some].unsqueeze(1)
                logits = torch.addmm(offset, x, matrix.t()).to(exact)
                total -= (1 - smoothing) * logits.gather(1, y).sum() + smoothing / classes * logits.sum()
                # The exponentials serve the loss and the gradient.
                largest = logits.amax(1, keepdim=True)
                exponentials = logits.sub_(largest).exp_()
                sums = exponentials.sum(1, keepdim=True)
                total += (largest + sums.log()).sum()
                if weight_gradient is None or bias_gradient is None:
                    continue
                gradient = exponentials.div_(sums).sub_(smoothing / classes)
                gradient.scatter_add_(1, y, gradient.new_full(y.shape, smoothing - 1))
                bias_gradient += gradient.sum(0)
                gradient = gradient.to(dtype)
                hidden_gradient[some] = gradient @ matrix
                weight_gradient += gradient.t() @ x
        if learning:
            ctx.save_for_backward(hidden_gradient, weight_gradient, bias_gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: Any) -> tuple[Tensor | None, ...]:
        (scale,) = outer
        hidden, weight, bias = (gradient * scale for gradient in ctx.saved_tensors)
        return hidden, weight, bias, None, None, None, None
