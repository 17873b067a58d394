"""Several models that write one translation together (Sutskever et al., arXiv 1409.3215, section 3).

They began with different random weights, so they are wrong in different places; what most of them would write
is more often right than what any one of them would.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.translation.decoding.steps import Steps


class Ensemble(nn.ModuleList):
    """Models of the same vocabularies, to be made ready as one."""


class EnsembleSteps:
    """Steps of all the models: each word is as probable as they find it on average."""

    def __init__(self, members: Sequence[Steps]) -> None:
        self._members = members
        dtypes = [member.dtype for member in members]
        self.dtype = max(dtypes, key=lambda dtype: torch.finfo(dtype).bits)

    def step(self, tokens: Int[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Read one more token of every beam, and give the log-probabilities of the one that follows it."""
        at_least = torch.promote_types(self.dtype, torch.float32)
        each = [member.step(tokens).to(at_least).log_softmax(dim=-1) for member in self._members]
        return torch.stack(each).logsumexp(dim=0) - math.log(len(each))

    def follow(self, parent: Int[Tensor, "B K"]) -> None:
        """Let beam k of each sentence go on from its beam `parent[k]`."""
        for member in self._members:
            member.follow(parent)

    def keep(self, sentences: Int[Tensor, "B2"]) -> None:
        """Drop all sentences but these."""
        for member in self._members:
            member.keep(sentences)
