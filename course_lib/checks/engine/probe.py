"""A probe: one test of an exercise, which sends requests to a candidate and returns a result to compare."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.reply import Reply, Value


class Draw:
    """A generator of a probe's random numbers, initialised with a seed."""

    def __init__(self, seed: str) -> None:
        self._generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))

    def normal(self, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return a tensor of standard normal numbers, which are drawn in float64 and converted to `dtype`."""
        return torch.randn(shape, generator=self._generator, dtype=torch.float64).to(dtype)

    def coins(self, *shape: int) -> Tensor:
        """Return a tensor of booleans, each True with probability one half."""
        return torch.rand(shape, generator=self._generator) < 0.5

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Return a tensor of uniformly distributed integers from `low` to `high - 1`."""
        return torch.randint(low, high, shape, generator=self._generator)


#: The result of a probe: a reply, or a value computed from replies that is the same for every correct answer.
Observed: TypeAlias = "Reply | Value | Mapping[str, Observed] | tuple[Observed, ...]"

#: The function of a probe, which sends requests to a candidate.
Ask: TypeAlias = Callable[[Candidate, Draw], Observed]


@dataclass(frozen=True)
class Probe:
    """A test of an exercise. It runs on the candidate and on the reference, and the results are compared."""

    description: str
    """What is true if the probe succeeds, as a short sentence for students."""
    ask: Ask
    tolerance: float | None = None
    """The tolerance relative to the largest expected number; None for the default of the dtype."""
    name: str = ""
    """A unique name. The random numbers depend on it instead of on `description`, which may be reworded."""

    def run(self, candidate: Candidate, seed: str) -> Observed:
        """Run the probe. Its random numbers depend on the seed and the probe's name."""
        return self.ask(candidate, Draw(f"{seed}/{self.name}"))
