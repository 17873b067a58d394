"""The layers of the encoder and the decoder: section 3.1 and figure 1 of the paper."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.transformer.attention import AttentionFunction, scaled_dot_product_attention
from course_lib.transformer.multi_head import MultiHeadAttention
from course_lib.transformer.sublayers import FeedForward, SublayerConnection


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network, each in a sublayer connection: figure 1, left.

    `attention` is passed to the `MultiHeadAttention` module. The parts are the attributes `self_attention`,
    `feed_forward` and `sublayers`, a `ModuleList` of two sublayer connections.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int,
        dropout: float = 0.1,
        norm_first: bool = False,
        attention: AttentionFunction = scaled_dot_product_attention,
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, heads, dropout, attention)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.sublayers = nn.ModuleList(SublayerConnection(d_model, dropout, norm_first) for _ in range(2))

    def forward(
        self, x: Float[Tensor, "B S D"], source_mask: Bool[Tensor, "..."] | None
    ) -> Float[Tensor, "B S D"]:
        """Transform the source representations. Each position attends to those that the mask allows."""
        attention_connection, feed_forward_connection = self.sublayers
        x = attention_connection(x, lambda y: self.self_attention(y, y, y, source_mask))
        return feed_forward_connection(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention to the encoder, then the feed-forward network: figure 1, right.

    `attention` is passed to both `MultiHeadAttention` modules. The parts are the attributes `self_attention`,
    `cross_attention`, `feed_forward` and `sublayers`, a `ModuleList` of three sublayer connections.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int,
        dropout: float = 0.1,
        norm_first: bool = False,
        attention: AttentionFunction = scaled_dot_product_attention,
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, heads, dropout, attention)
        self.cross_attention = MultiHeadAttention(d_model, heads, dropout, attention)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.sublayers = nn.ModuleList(SublayerConnection(d_model, dropout, norm_first) for _ in range(3))

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"],
        source_mask: Bool[Tensor, "..."] | None,
        target_mask: Bool[Tensor, "..."] | None,
    ) -> Float[Tensor, "B T D"]:
        """Transform the target representations. They attend to the target, then to the encoded source."""
        self_connection, cross_connection, feed_forward_connection = self.sublayers
        x = self_connection(x, lambda y: self.self_attention(y, y, y, target_mask))
        x = cross_connection(x, lambda y: self.cross_attention(y, memory, memory, source_mask))
        return feed_forward_connection(x, self.feed_forward)
