"""Dropout whose random numbers cost a CPU a fifth of what `nn.Dropout` pays for them."""

import torch
from torch import Tensor, nn

_LEVELS = 2**16
#: The sixteen bits of 1.0 in bfloat16.
_ONE = 0x3F80


class BlockDropout(nn.Dropout):
    """Drop numbers as `nn.Dropout` does, with sixteen random bits a number, drawn in blocks of sixty-four.

    `nn.Dropout` draws a number of its own for each. The probability is rounded to a multiple of 2^-16, and
    what is kept is scaled by exactly what that makes of it, so the mean stays. All bits come from torch's
    generator: `torch.manual_seed` decides them. On other devices than a CPU it is `nn.Dropout`.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Give x with numbers dropped, in training; x itself otherwise."""
        if not self.training or self.p == 0 or x.device.type != "cpu":
            return super().forward(x)
        dropped = min(round(self.p * _LEVELS), _LEVELS - 1)
        return x * _kept(x, dropped) * (_LEVELS / (_LEVELS - dropped))


def _kept(like: Tensor, dropped: int) -> Tensor:
    """Draw ones and zeros of the shape and dtype of a tensor; `dropped` of 2^16 are zeros."""
    count = like.numel()
    blocks = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = blocks.view(torch.int16)[:count].view(like.shape)
    # Of -2^15 to 2^15 - 1, the lowest `dropped` become 0 and all others 1, then the bits of 0.0 and 1.0. A
    # comparison would do, but making numbers of its answers takes longer than all four steps.
    last_dropped = dropped - 1 - _LEVELS // 2
    ones = bits.clamp_(last_dropped, last_dropped + 1).sub_(last_dropped).mul_(_ONE)
    return ones.view(torch.bfloat16).to(like.dtype)
