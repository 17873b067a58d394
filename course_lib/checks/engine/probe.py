"""One thing that a check tries: a probe asks something of a candidate and says what is to be compared."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate


class Draw:
    """Numbers for a probe, the same for everyone who is asked the same: drawn from a seed."""

    def __init__(self, seed: str) -> None:
        self._generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))

    def normal(self, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """Standard normal numbers."""
        return torch.randn(shape, generator=self._generator, dtype=torch.float64).to(dtype)

    def coins(self, *shape: int, heads: float = 0.5) -> Tensor:
        """Truth values, True with probability `heads`."""
        return torch.rand(shape, generator=self._generator) < heads

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Whole numbers from low up to high - 1."""
        return torch.randint(low, high, shape, generator=self._generator)


@dataclass(frozen=True)
class Probe:
    """Ask something of a candidate. The same is asked of the reference, and what comes back is compared."""

    says: str
    """What holds where the probe succeeds, as a short sentence for students."""
    ask: Callable[[Candidate, Draw], Any]
    """Gives a reply, or a value made from replies that does not depend on what the contract leaves free."""
    tolerance: float | None = None
    """How far apart numbers may lie, relative to the largest; None for what is usual for their dtype."""

    def run(self, candidate: Candidate, seed: str) -> Any:
        """Ask, with the numbers that belong to this probe and seed."""
        return self.ask(candidate, Draw(f"{seed}/{self.says}"))


def probe(says: str, tolerance: float | None = None) -> Callable[[Callable[[Candidate, Draw], Any]], Probe]:
    """Make a probe of a function."""
    return lambda ask: Probe(says, ask, tolerance)
