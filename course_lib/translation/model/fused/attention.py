"""PyTorch's fused kernel in the place of lesson 01's matrix products: it never forms the weights."""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.errors import BadInputError


def fused_attention(
    query: Float[Tensor, "B H Q d"],
    key: Float[Tensor, "B H K d"],
    value: Float[Tensor, "B H K d"],
    mask: Bool[Tensor, "..."] | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Float[Tensor, "B H Q d"], None]:
    """Compute `scaled_dot_product_attention` of section 3.2.1; there are no weights to hand back.

    The kernel draws its own dropout, so it has to know how much: raises BadInputError where `dropout` is not
    an `nn.Dropout`.
    """
    if dropout is not None and not isinstance(dropout, nn.Dropout):
        raise BadInputError(
            "model.attention=fused: expected the dropout that multi-head attention hands on to be an "
            f"nn.Dropout, came {type(dropout).__name__}; make it one, or set model.attention=plain"
        )
    rate = dropout.p if dropout is not None and dropout.training else 0.0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate), None
