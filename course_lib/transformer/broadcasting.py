"""Every element of a row with every other, by broadcasting: how the tables of section 3.2 come to be."""

from jaxtyping import Num
from torch import Tensor


def pairwise_differences(x: Num[Tensor, "... L"]) -> Num[Tensor, "... L L"]:
    """Subtract each element of a row from each: at [..., i, j] stands x[..., i] - x[..., j].

    Rows lie along the last axis; the axes in front of it, however many, are kept, and so is the dtype.
    """
    return x.unsqueeze(-1) - x.unsqueeze(-2)
