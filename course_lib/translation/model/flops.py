"""The number of floating-point operations in a training batch, and the rate that a device reaches."""

import time

import torch
from jaxtyping import Int
from torch import Tensor

from course_lib.translation.configs.schema import ModelConfig, Precision
from course_lib.translation.model.devices import synchronize
from course_lib.translation.model.precision import resolve_precision

#: The minimum number of measurements. Several are needed, because other programs may slow down some of them.
_MIN_REPEATS = 5
#: The minimum duration of all measurements together.
_MIN_SECONDS = 0.3


def training_flops(
    model: ModelConfig,
    target_vocabulary: int,
    source_lengths: Int[Tensor, "B"],
    target_lengths: Int[Tensor, "B"],
) -> float:
    """Count the operations of all matrix products in a forward and a backward pass over a batch.

    The product of an n x k and a k x m matrix takes 2 n k m operations, and the backward pass does two
    products of that size for each. The lengths are the numbers of tokens in each sentence that the
    encoder and the decoder read. Padding, and the keys that the causal mask excludes (half of the decoder's
    self-attention), are not counted.
    """
    d, ff, layers = model.d_model, model.d_ff, model.layers
    source, target = source_lengths.double(), target_lengths.double()
    # Each source token also passes through the key and value projections of every cross-attention.
    per_source_token = layers * (4 * d * d + 2 * d * ff) + layers * 2 * d * d
    per_target_token = layers * (6 * d * d + 2 * d * ff) + target_vocabulary * d
    attended_pairs = layers * (source * source + target * target / 2 + source * target).sum()
    weights = per_source_token * source.sum() + per_target_token * target.sum()
    return float(6 * weights + 12 * d * attended_pairs)


def measure_matmul_rate(device: torch.device, precision: Precision) -> float:
    """Measure the floating-point operations per second that a device reaches on large matrix products.

    Return the best of at least five measurements in `precision`. The model FLOPs utilisation (MFU) is
    relative to this rate. The first product is not measured, because loading its kernels can take fifty times
    as long as the product itself.
    """
    resolved = resolve_precision(precision, device)
    dtype = torch.float32 if resolved == "tf32" else getattr(torch, resolved)
    # In float64, many GPUs would take seconds for a large product.
    large = 2048 if dtype == torch.float64 else 8192
    size = large if device.type == "cuda" else 1024
    # Use random numbers: a GPU multiplies identical numbers faster, because that takes less power.
    a, b = torch.randn(2, size, size, device=device).to(dtype)
    torch.mm(a, b)
    durations: list[float] = []
    end = _now(device) + _MIN_SECONDS
    while len(durations) < _MIN_REPEATS or time.perf_counter() < end:
        started = _now(device)
        torch.mm(a, b)
        durations.append(_now(device) - started)
    return 2 * size**3 / min(durations)


def _now(device: torch.device) -> float:
    synchronize(device)
    return time.perf_counter()
