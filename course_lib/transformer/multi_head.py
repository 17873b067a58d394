"""Multi-head attention: section 3.2.2 of "Attention Is All You Need"."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.transformer.attention import AttentionFunction, scaled_dot_product_attention


def split_heads(x: Float[Tensor, "B L D"], heads: int) -> Float[Tensor, "B {heads} L d"]:
    """Split the last axis into heads, and move the head axis before the length axis.

    (B, L, D) becomes (B, H, L, D/H). As in section 3.2.2, head i, counted from 0, gets the features from
    i * D/H up to, but not including, (i + 1) * D/H. Raises ValueError if D is not divisible by the number of
    heads; the message contains both numbers.
    """
    d_model = x.shape[-1]
    if d_model % heads != 0:
        raise ValueError(f"{d_model} features cannot be split into {heads} heads of equal width")
    return x.unflatten(-1, (heads, d_model // heads)).transpose(-3, -2)


def merge_heads(x: Float[Tensor, "B H L d"]) -> Float[Tensor, "B L D"]:
    """Concatenate the heads (Concat in section 3.2.2), the inverse of `split_heads`.

    (B, H, L, D/H) becomes (B, L, D).
    """
    return x.transpose(-3, -2).flatten(-2)


class MultiHeadAttention(nn.Module):
    """Attention with several heads in parallel, each on its own projection of the input (section 3.2.2).

    `attention` is the function that every head applies: it takes `(query, key, value, mask, dropout)` and
    returns `(output, weights)`. Dropout, which section 5.4 doesn't mention here, is applied to the
    attention weights only. The module has `query_projection`, `key_projection`, `value_projection` and
    `output_projection`, each an `nn.Linear` with a bias.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        dropout: float = 0.1,
        attention: AttentionFunction = scaled_dot_product_attention,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.attention = attention
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.output_projection = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        query: Float[Tensor, "B Q D"],
        key: Float[Tensor, "B K D"],
        value: Float[Tensor, "B K D"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """Project, split into heads, attend, merge the heads, and project again.

        A mask of shape (B, Q, K) applies to every head; masks of shape (Q, K) or (B, H, Q, K) are passed
        unchanged. Raises ValueError if the batch sizes of query, key and value differ.
        """
        # Without this check, torch would broadcast a batch of one, and a mistake would go unnoticed.
        batches = query.shape[0], key.shape[0], value.shape[0]
        if len(set(batches)) > 1:
            raise ValueError(f"query, key and value must have the same batch size, got {batches}")
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)
        output, _ = self.attention(
            split_heads(self.query_projection(query), self.heads),
            split_heads(self.key_projection(key), self.heads),
            split_heads(self.value_projection(value), self.heads),
            mask,
            self.dropout,
        )
        return self.output_projection(merge_heads(output))
