"""Faster implementations of the reference's layers and loss, which keep the names of all weights.

Separate implementations keep the code of the lessons simple. Tests show that both versions compute the same
results.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from course_lib.errors import BadInputError
from course_lib.transformer import LayerNorm


def use_fused_layers(model: nn.Module) -> None:
    """Replace `nn.Dropout` and the reference's `LayerNorm` with faster versions, keeping the weights' names.

    Subclasses are not replaced, because they may compute something different.
    """
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if type(module) is nn.Dropout:
                setattr(parent, name, BlockDropout(module.p))
            elif type(module) is LayerNorm:
                fused = FusedLayerNorm(len(module.scale), module.eps)
                fused.scale, fused.shift = module.scale, module.shift
                setattr(parent, name, fused)


def fused_attention(
    query: Float[Tensor, "B H Q d"],
    key: Float[Tensor, "B H K d"],
    value: Float[Tensor, "B H K d"],
    mask: Bool[Tensor, "..."] | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Float[Tensor, "B H Q d"], None]:
    """Compute scaled dot-product attention with PyTorch's fused kernel, which doesn't return the weights.

    A `mask` of None masks nothing. The kernel applies dropout itself, so it needs the rate: BadInputError is
    raised if `dropout` is neither None nor an `nn.Dropout`.
    """
    if dropout is not None and not isinstance(dropout, nn.Dropout):
        raise BadInputError(
            "model.attention=fused: multi-head attention must pass an nn.Dropout to the attention function, "
            f"got {type(dropout).__name__}. Use nn.Dropout, or set model.attention=plain."
        )
    rate = dropout.p if dropout is not None and dropout.training else 0.0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate), None


def fused_decoder_mask(tokens: Int[Tensor, "B L"], pad_id: int) -> Bool[Tensor, "B L L"]:
    """Compute `decoder_mask` on the tokens' device, so that a GPU doesn't wait for a copy from the CPU."""
    length = tokens.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=tokens.device).tril()
    return (tokens != pad_id).unsqueeze(1) & causal


class FusedLayerNorm(LayerNorm):
    """Lesson 03's `LayerNorm`, computed by PyTorch's fused kernel in one pass over the features."""

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Normalise over the last axis: (..., D) to (..., D)."""
        scale, shift = self.scale.to(x.dtype), self.shift.to(x.dtype)
        return F.layer_norm(x, scale.shape, scale, shift, self.eps)


#: BlockDropout rounds the rate to a multiple of 1 / _LEVELS.
_LEVELS = 2**16
#: The bits of 1.0 in bfloat16.
_ONE = 0x3F80


class BlockDropout(nn.Dropout):
    """Dropout that generates its random numbers five times as fast as `nn.Dropout` on a CPU.

    `nn.Dropout` draws a random number for each element. This class draws 64 bits at a time and uses 16 of
    them for each element. The rate is rounded to a multiple of 2^-16, and the elements that are kept are
    scaled accordingly, so that the mean is unchanged. All bits come from torch's generator, so
    `torch.manual_seed` determines them. On other devices, in compiled code, and for rates that would be
    rounded to 0, the class is equivalent to `nn.Dropout`.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Zero random elements of x and scale the others during training; otherwise, return x itself."""
        dropped = min(round(self.p * _LEVELS), _LEVELS - 1)
        # PyTorch 2.13 can't compile `_random_ones`, because it reinterprets a tensor as a different dtype.
        compiling = torch.compiler.is_compiling()
        if not self.training or dropped == 0 or x.device.type != "cpu" or compiling:
            return super().forward(x)
        return x * _random_ones(x, dropped) * (_LEVELS / (_LEVELS - dropped))


def _random_ones(like: Tensor, dropped: int) -> Tensor:
    """Return a tensor like `like` in which each element is 0 with probability `dropped` / 2^16, else 1."""
    count = like.numel()
    blocks = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = blocks.view(torch.int16)[:count].view(like.shape)
    # The `dropped` lowest of the values from -2^15 to 2^15 - 1 become 0, and all others become 1. Multiplying
    # by _ONE turns these into the bits of 0.0 and 1.0. That is faster than converting a comparison's result.
    last_dropped = dropped - 1 - _LEVELS // 2
    ones = bits.clamp_(last_dropped, last_dropped + 1).sub_(last_dropped).mul_(_ONE)
    return ones.view(torch.bfloat16).to(like.dtype)


#: The number of logits computed at a time: few enough for a CPU's cache, many enough to keep a GPU busy.
_LOGITS_PER_CHUNK = {"cpu": 2**20, "cuda": 2**28}


#: The maximum number of rows in a chunk in float16. With more rows, a weight's gradient in a chunk could
#: exceed 65,504, the largest float16 number, even though hidden values are below 16. A scaled loss doesn't
#: help, because this gradient is computed before the loss is scaled.
_FLOAT16_ROWS = 2**12


def _rows_per_chunk(device: torch.device, classes: int, dtype: torch.dtype) -> int:
    rows = max(1, _LOGITS_PER_CHUNK.get(device.type, 2**24) // classes)
    return min(rows, _FLOAT16_ROWS) if dtype == torch.float16 else rows


#: In compiled code, the number of classes is padded to a multiple of this, so that a GPU reads and writes
#: several logits at a time.
_ALIGNMENT = 64


def _columns(classes: int, compiled: bool) -> int:
    return classes + -classes % _ALIGNMENT if compiled else classes


def chunk_bytes(
    positions: int, classes: int, dtype: torch.dtype, device: torch.device, compiled: bool = False
) -> int:
    """Return the memory in bytes that `fused_smoothed_loss` needs for the logits of its largest chunk.

    There are three matrices: the logits, their exponentials and their gradient. In float32 or better, they
    share one block of memory. Compiled code needs only the logits and their gradient.
    """
    columns = _columns(classes, compiled)
    logits = min(positions, _rows_per_chunk(device, columns, dtype)) * columns
    if compiled:
        return logits * 2 * dtype.itemsize
    exact = torch.promote_types(dtype, torch.float32)
    return logits * (exact.itemsize + (2 * dtype.itemsize if dtype != exact else 0))


def fused_smoothed_loss(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, "V"],
    labels: Int[Tensor, "N"],
    smoothing: float,
    dtype: torch.dtype,
    compiled: bool = False,
) -> Float[Tensor, ""]:
    """Sum the cross-entropy of `hidden @ weight.T + bias` against smoothed labels over N positions.

    This is N times lesson 08's `LabelSmoothingLoss` if no label is padding. Matrix products run in `dtype`,
    everything else in float32 or better. With `compiled`, the operations on the logits are compiled.

    With z the logits of a position, y its label and e the smoothing, the cross-entropy against targets of e /
    V for every class, plus 1 - e for y, is

        logsumexp(z) - (1 - e) z[y] - e mean(z),

    and its gradient is softmax(z) - e / V, minus 1 - e at y. So the smoothed targets, a matrix (N, V), are
    never computed, and only a few rows of the logits, another such matrix, are in memory at a time. The means
    need no logits at all: their sum is the product of the summed `hidden` and the mean row of `weight`, plus
    N times the mean of `bias`.
    """
    # Determine this here, because gradients are always disabled inside `forward`.
    needs_gradient = torch.is_grad_enabled()
    total: Tensor = _SmoothedLoss.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, labels, smoothing, dtype, needs_gradient, compiled
    )
    return total


class _SmoothedLoss(torch.autograd.Function):
    """The autograd function behind `fused_smoothed_loss`.

    The forward pass also computes the gradients, because only then are the logits in memory.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        labels: Tensor,
        smoothing: float,
        dtype: torch.dtype,
        needs_gradient: bool,
        compiled: bool,
    ) -> Tensor:
        exact = torch.promote_types(dtype, torch.float32)
        classes = len(weight)
        step = compiled_softmax_step(classes) if compiled else _softmax_step
        hidden_gradient = torch.empty_like(hidden)
        with torch.autocast(hidden.device.type, enabled=False):
            matrix, offset = weight.to(dtype), bias.to(dtype)
            means = hidden.to(dtype).sum(0, dtype=exact) @ matrix.mean(0, dtype=exact)
            means += len(labels) * offset.mean(dtype=exact)
            total = -smoothing * means
            columns = _columns(classes, compiled)
            if padding := columns - classes:
                # The additional classes have a probability of 0.
                matrix = F.pad(matrix, (0, 0, 0, padding))
                offset = F.pad(offset, (0, padding), value=-torch.inf)
            rows = _rows_per_chunk(hidden.device, columns, dtype)
            weight_gradient = torch.zeros_like(matrix, dtype=exact) if needs_gradient else None
            bias_gradient = torch.zeros_like(offset, dtype=exact) if needs_gradient else None
            for first in range(0, len(labels), rows):
                chunk = slice(first, first + rows)
                x, y = hidden[chunk].to(dtype), labels[chunk].unsqueeze(1)
                logits = torch.addmm(offset, x, matrix.t())
                loss, gradient, column_sums = step(logits, y, smoothing, exact, needs_gradient)
                total += loss
                if weight_gradient is None or bias_gradient is None:
                    continue
                bias_gradient += column_sums
                if hidden_gradient.dtype == dtype:
                    torch.mm(gradient, matrix, out=hidden_gradient[chunk])
                else:
                    hidden_gradient[chunk] = gradient @ matrix
                weight_gradient += gradient.t() @ x
        if weight_gradient is not None and bias_gradient is not None:
            ctx.save_for_backward(hidden_gradient, weight_gradient[:classes], bias_gradient[:classes])
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: Any) -> tuple[Tensor | None, ...]:
        (scale,) = outer
        hidden, weight, bias = (gradient * scale for gradient in ctx.saved_tensors)
        return hidden, weight, bias, None, None, None, None, None


def _softmax_step(
    logits: Tensor, labels: Tensor, smoothing: float, exact: torch.dtype, needs_gradient: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the summed loss of some rows of logits, its gradient, and the gradient's column sums.

    The loss excludes the mean of the logits; the gradient includes it. Calculations run in the dtype
    `exact`, and the logits may be overwritten. Without `needs_gradient`, the second and third results are
    placeholders.
    """
    dtype, classes = logits.dtype, logits.shape[1]
    logits = logits.to(exact)
    at_labels = logits.gather(1, labels)
    # Compute the exponentials once, for both the loss and the gradient.
    largest = logits.amax(1, keepdim=True)
    exponentials = logits.sub_(largest).exp_()
    sums = exponentials.sum(1, keepdim=True)
    loss = (largest + sums.log() - (1 - smoothing) * at_labels).sum()
    if not needs_gradient:
        return loss, loss, loss
    gradient = exponentials.div_(sums).sub_(smoothing / classes)
    gradient.scatter_add_(1, labels, gradient.new_full(labels.shape, smoothing - 1))
    return loss, gradient.to(dtype), gradient.sum(0)


@functools.cache
def compiled_softmax_step(classes: int) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """Return a compiled version of `_softmax_step`, for any number of rows of logits.

    Only the first `classes` columns count; the others are padding. The formula differs from that of
    `_softmax_step`, so that the compiler can fuse all operations on a logit: it reads the logits once for the
    loss, and again for the gradient and for its column sums. In mixed precision, neither the exponentials nor
    a gradient in float32 is stored.
    """

    def step(
        logits: Tensor, labels: Tensor, smoothing: float, exact: torch.dtype, needs_gradient: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        dtype, device = logits.dtype, logits.device
        columns = torch.arange(logits.shape[1], device=device)
        logits = logits.to(exact)
        # PyTorch's compiler computes this maximum and this sum together. It doesn't do that for `logsumexp`.
        largest = logits.amax(1, keepdim=True)
        log_sums = largest + (logits - largest).exp().sum(1, keepdim=True).log()
        loss = (log_sums - (1 - smoothing) * logits.gather(1, labels)).sum()
        if not needs_gradient:
            return loss, loss, loss
        targets = torch.where(columns < classes, smoothing / classes, 0.0)
        targets = torch.where(columns == labels, 1 - smoothing + smoothing / classes, targets)
        gradient = (logits - log_sums).exp() - targets
        return loss, gradient.to(dtype), gradient.sum(0)

    compiled = torch.compile(step)

    def for_any_number_of_rows(
        logits: Tensor, labels: Tensor, *settings: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        # Keep the number of columns static, so that the compiler knows that it is a multiple of 64.
        for tensor in (logits, labels):
            torch._dynamo.maybe_mark_dynamic(tensor, 0)
        return compiled(logits, labels, *settings)

    return for_any_number_of_rows
