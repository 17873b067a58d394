"""What a search is asked for, and what it finds."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class SearchSettings:
    """How to search."""

    beam: int = 1
    """Beginnings kept at every step; one is greedy decoding."""
    alpha: float = 0.0
    """The exponent of the length penalty; with zero, short translations are favoured."""
    n_best: int = 1
    """How many translations of a sentence are wanted, at most `beam`."""

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ValueError(f"beam must be at least 1, and is {self.beam}")
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha must be a number that is 0 or more, and is {self.alpha}")
        if not 1 <= self.n_best <= self.beam:
            raise ValueError(
                f"n_best must be between 1 and the beam, which is {self.beam}, and is {self.n_best}: "
                "a beam finds no more translations than it is wide"
            )


@dataclass(frozen=True)
class Hypothesis:
    """A translation that a search has found, as ids."""

    ids: list[int]
    """What was written after the start; it ends on the end symbol, unless the greatest length cut it."""
    log_probability: float
    """In nats, the end symbol counted."""
    score: float
    """The log-probability over the length penalty: higher is better."""
