"""How much arithmetic training is, and how much of it a machine could do."""

import time

import torch
from jaxtyping import Int
from torch import Tensor

from course_lib.translation.configs.schema import ModelConfig
from course_lib.translation.model.precision import Precision, settled


def training_work(
    model: ModelConfig,
    target_vocabulary: int,
    source_lengths: Int[Tensor, "B"],
    target_lengths: Int[Tensor, "B"],
) -> float:
    """Count the operations of the matrix products of a forward and a backward pass over real tokens.

    A product of an n x k by a k x m matrix is 2 n k m operations; the backward pass has two of that size for
    each. Lengths are those of the sentences of a batch, on the CPU: padding is no work that had to be done.
    Nor are those keys that the causal mask hides: half of the decoder's self-attention.
    """
    d, ff, layers = model.d_model, model.d_ff, model.layers
    source, target = source_lengths.double(), target_lengths.double()
    every_source = (
        layers * (4 * d * d + 2 * d * ff) + layers * 2 * d * d
    )  # and cross-attention's keys, values
    every_target = layers * (6 * d * d + 2 * d * ff) + target_vocabulary * d
    pairs_looked_at = layers * (source * source + target * target / 2 + source * target).sum()
    weights = every_source * source.sum() + every_target * target.sum()
    return float(6 * weights + 12 * d * pairs_looked_at)


#: However long they take: other programs may stop any one of them for a while.
_FEWEST_TRIES = 5


def matrix_rate(device: torch.device, precision: Precision, seconds: float = 0.3) -> float:
    """Measure how many operations a second this device reaches on large matrix products in this precision.

    The best of several tries, with the threads as they are set: what MFU is a share of. The first product is
    not counted, since what it needs is only then loaded: that can take fifty times as long as the product.
    """
    dtype = getattr(torch, settled(precision, device))
    size = 8192 if device.type == "cuda" else 1024
    a, b = torch.ones(2, size, size, dtype=dtype, device=device)
    torch.mm(a, b)
    tries: list[float] = []
    end = _now(device) + seconds
    while len(tries) < _FEWEST_TRIES or time.perf_counter() < end:
        began = _now(device)
        torch.mm(a, b)
        tries.append(_now(device) - began)
    return 2 * size**3 / min(tries)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
