"""Steps of any decoder: for each token the whole beginning is computed anew, as the reference does."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_lib.transformer import causal_mask
from course_lib.translation.model.precision import Precision, arithmetic


class UncachedSteps:
    """Steps of a model of which no more is known than that it has `encode`, `decode` and `generator`."""

    def __init__(
        self,
        model: Any,
        memory: Float[Tensor, "B S D"],
        source_mask: Bool[Tensor, "B 1 S"],
        precision: Precision,
    ) -> None:
        self.dtype = memory.dtype
        """Of the logits, or less."""
        self._model = model
        self._memory = memory
        self._source_mask = source_mask
        self._precision: Precision = precision
        self._written: Tensor | None = None

    def step(self, tokens: Int[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Read one more token of every beam, and give the logits for the one that follows it."""
        new = tokens.unsqueeze(-1)
        written = new if self._written is None else torch.cat([self._written, new], dim=2)
        self._written = written
        beams = tokens.shape[1]
        with arithmetic(self._precision, tokens.device):
            hidden = self._model.decode(
                self._memory.repeat_interleave(beams, dim=0),
                self._source_mask.repeat_interleave(beams, dim=0),
                written.flatten(0, 1),
                causal_mask(written.shape[2]).to(tokens.device),
            )
            logits: Tensor = self._model.generator(hidden[:, -1])
        return logits.unflatten(0, tokens.shape)

    def follow(self, parent: Int[Tensor, "B K"]) -> None:
        """Let beam k of each sentence go on from its beam `parent[k]`."""
        assert self._written is not None, "a step comes first"
        self._written = self._written.gather(1, parent.unsqueeze(-1).expand(-1, -1, self._written.shape[2]))

    def keep(self, sentences: Int[Tensor, "B2"]) -> None:
        """Drop all sentences but these."""
        assert self._written is not None, "a step comes first"
        self._memory, self._source_mask = self._memory[sentences], self._source_mask[sentences]
        self._written = self._written[sentences]
