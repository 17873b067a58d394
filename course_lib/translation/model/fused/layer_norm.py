"""Lesson 03's layer normalisation, in one kernel."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from course_lib.transformer import LayerNorm


class FusedLayerNorm(LayerNorm):
    """Compute what `LayerNorm` does by PyTorch's own kernel, which reads and writes the numbers once."""

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Normalise over the last axis: (..., D) to (..., D)."""
        return F.layer_norm(x, self.scale.shape, self.scale, self.shift, self.eps)
