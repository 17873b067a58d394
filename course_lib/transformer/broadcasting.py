"""Broadcasting: every element of a row with every other, as in the score tables of section 3.2."""

from jaxtyping import Num
from torch import Tensor


def pairwise_differences(x: Num[Tensor, "... L"]) -> Num[Tensor, "... L L"]:
    """Return all pairwise differences within a row: entry [..., i, j] is x[..., i] - x[..., j].

    Rows run along the last axis. Any number of axes in front of it is kept, and so is the dtype.
    """
    return x.unsqueeze(-1) - x.unsqueeze(-2)
