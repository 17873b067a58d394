"""How the grammar chooses: through one function, so that chance, or a search, can stand behind it."""

import math
from collections.abc import Sequence
from random import Random
from typing import Protocol, TypeVar, runtime_checkable

Option = TypeVar("Option")


class DeadEnd(Exception):  # noqa: N818 (it is no error: the corpus simply starts another sentence)
    """The choices made so far leave nothing to choose."""


@runtime_checkable
class Chooser(Protocol):
    """Who decides. Weights are relative; without them all options are equally likely."""

    def __call__(self, options: Sequence[Option], weights: Sequence[float] | None = None) -> Option:
        """One of the options; there is at least one."""


class Choices:
    """What every part of the grammar can do: choose among options, and toss a coin."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser

    def choose(self, options: Sequence[Option], weights: Sequence[float] | None = None) -> Option:
        """One of the options. Raises DeadEnd when there is none."""
        if not options:
            raise DeadEnd
        return self._chooser(options, weights)

    def chance(self, probability: float) -> bool:
        """True that often."""
        return self.choose((True, False), (probability, 1.0 - probability))


class Chance:
    """Chooses at random, the same on every platform and Python version.

    Python promises a stable stream for `Random.random()` only, so nothing else of it is used. Nor is `sum`:
    since Python 3.12 it rounds floats differently.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def __call__(self, options: Sequence[Option], weights: Sequence[float] | None = None) -> Option:
        """One of the options."""
        if weights is None:
            return options[int(self._random.random() * len(options))]
        point = self._random.random() * math.fsum(weights)
        for option, weight in zip(options, weights, strict=True):
            point -= weight
            if point < 0.0:
                return option
        return options[-1]
