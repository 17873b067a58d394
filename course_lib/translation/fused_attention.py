"""PyTorch's fused kernel in the place of lesson 01's matrix products: it never forms the weights."""

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F


def fused_attention(
    query: Float[Tensor, "B H Q d"],
    key: Float[Tensor, "B H K d"],
    value: Float[Tensor, "B H K d"],
    mask: Bool[Tensor, "..."] | None = None,
    dropout: nn.Dropout | None = None,
) -> tuple[Float[Tensor, "B H Q d"], None]:
    """Compute `scaled_dot_product_attention` of section 3.2.1; there are no weights to hand back.

    The kernel draws its own dropout, so it needs the module and not just any callable.
    """
    rate = dropout.p if dropout is not None and dropout.training else 0.0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate), None
