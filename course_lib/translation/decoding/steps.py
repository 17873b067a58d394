"""What a search asks of a decoder, whatever is inside."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class Steps(Protocol):
    """A decoder that reads the beams of a batch of sentences token by token."""

    dtype: torch.dtype
    """Of the logits, or less."""

    def step(self, tokens: Int[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Read one more token of every beam, and give the logits for the one that follows it.

        The first step reads one token a sentence, the start; each later one a token of every beam.
        """

    def follow(self, parent: Int[Tensor, "B K"]) -> None:
        """Let beam k of each sentence go on from its beam `parent[k]`."""

    def keep(self, sentences: Int[Tensor, "B2"]) -> None:
        """Drop all sentences but these."""
