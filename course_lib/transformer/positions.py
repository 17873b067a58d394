"""Tokens and their positions as vectors: sections 3.4 and 3.5 of "Attention Is All You Need"."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def sinusoids(length: int, d_model: int) -> Float[Tensor, "{length} {d_model}"]:
    """Return the encoding of positions 0 to length - 1: sines and cosines of decreasing frequency.

    As in section 3.5, column 2i is sin(position / 10000^(2i / d_model)), and column 2i + 1 is the cosine of
    the same angle. If d_model is odd, the last column is a sine. The result is in float32.
    """
    # In float32, the rounding error of the angle would grow with the position: sines would be wrong by up to
    # 4e-4 at position 5,000.
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    even_column = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = position / 10000.0 ** (even_column / d_model)
    table = torch.empty(length, d_model, dtype=torch.float32)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle[:, : d_model // 2].cos()
    return table


class TokenEmbedding(nn.Module):
    """A learned vector for each token, times the square root of d_model: section 3.4.

    `table`, an `nn.Embedding`, is initialised from a normal distribution with standard deviation
    d_model^-0.5, so that the scaled vectors start with standard deviation 1, about the size of the positional
    encodings.
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.table.weight, std=d_model**-0.5)

    def forward(self, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
        """Look up the tokens' vectors and scale them."""
        return self.table(tokens) * math.sqrt(self.table.embedding_dim)


class PositionalEncoding(nn.Module):
    """A module that adds the sinusoids to its input and applies dropout to the sum: sections 3.5 and 5.4.

    The result has the dtype of the input. The table moves with the module between devices but is not part of
    its state dict, because it can always be computed again.
    """

    table: Tensor

    def __init__(self, d_model: int, dropout: float = 0.1, max_length: int = 5000) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("table", sinusoids(max_length, d_model), persistent=False)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Add the positional encoding, and apply dropout to the sum.

        Raises ValueError if the input is longer than max_length; the message contains both numbers.
        """
        length, max_length = x.shape[1], self.table.shape[0]
        if length > max_length:
            raise ValueError(f"the input has {length} positions, but max_length is {max_length}")
        return self.dropout(x + self.table[:length].to(x.dtype))
