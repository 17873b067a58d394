"""Broadcasting: pair every element with every other, as attention pairs queries with keys (section 3.2)."""

from jaxtyping import Num
from torch import Tensor


def pairwise_differences(x: Num[Tensor, "... L"]) -> Num[Tensor, "... L L"]:
    """Return all pairwise differences within a row: entry [..., i, j] is x[..., i] - x[..., j].

    Rows run along the last axis. Any leading axes and the dtype are kept.
    """
    return x.unsqueeze(-1) - x.unsqueeze(-2)
