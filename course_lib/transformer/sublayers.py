"""Layer normalisation, the feed-forward network and residual connections: sections 3.1, 3.3 and 5.4."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn


class LayerNorm(nn.Module):
    """Layer normalisation: mean 0 and variance 1 over the features of each position, then scale and shift.

    This is equation 4 of Ba, Kiros and Hinton 2016 (arXiv 1607.06450), as cited in section 3.1. The variance
    is the biased one (divided by D), and eps, which the paper leaves out, is added inside the square root.
    The module has the parameters `scale` and `shift`, each of shape (D,).
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Normalise over the last axis: (..., D) to (..., D)."""
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return self.scale * (x - mean) / torch.sqrt(variance + self.eps) + self.shift


class FeedForward(nn.Module):
    """A two-layer network, applied to each position separately: section 3.3, equation 2.

    Dropout is applied between the layers, `inner` and `outer`, each an `nn.Linear` with a bias. (Section 5.4
    doesn't mention this dropout.)
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Project to d_ff, apply ReLU and dropout, and project back to d_model."""
        return self.outer(self.dropout(self.inner(x).relu()))


class SublayerConnection(nn.Module):
    """A residual connection around a sublayer, with dropout on the sublayer's output and layer normalisation.

    Sections 3.1 and 5.4 use "post-norm": norm(x + dropout(sublayer(x))). With `norm_first`, the module uses
    "pre-norm" as in Xiong et al. 2020 (arXiv 2002.04745): x + dropout(sublayer(norm(x))). The module has
    `norm`, a `LayerNorm`.
    """

    def __init__(self, d_model: int, dropout: float = 0.1, norm_first: bool = False) -> None:
        super().__init__()
        self.norm = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        sublayer: Callable[[Float[Tensor, "B L D"]], Float[Tensor, "B L D"]],
    ) -> Float[Tensor, "B L D"]:
        """Apply the sublayer once, add its output to x after dropout, and normalise as configured."""
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))
