"""Which weights are the best on the validation split, and whether to go on looking for better ones."""

import math
from typing import Any

from course_lib.translation.configs.schema import SelectionConfig


class Selection:
    """The best measurement so far, and how many have come since."""

    def __init__(self, config: SelectionConfig) -> None:
        self._patience = config.patience
        self._name = {"loss": "validation_loss", "bleu": "bleu"}[config.metric]
        self._sign = {"loss": -1.0, "bleu": 1.0}[config.metric]
        self._best = -math.inf
        self._since = 0
        self.step = 0
        """After which update the best weights were found; 0 before there are any."""

    def is_better(self, row: dict[str, Any], step: int) -> bool:
        """Take in a row of metrics, and say whether the weights it speaks of are the best so far.

        A row without the measure counts for nothing. Equally good ones are no better, and neither is NaN.
        """
        if self._name not in row:
            return False
        value = self._sign * row[self._name]
        if value > self._best:
            self._best, self._since, self.step = value, 0, step
            return True
        self._since += 1
        return False

    @property
    def is_over(self) -> bool:
        """Whether patience has come to its end."""
        return self._patience is not None and self._since >= self._patience

    def state(self) -> dict[str, float | int]:
        """Give all that a later process needs to go on."""
        return {"best": self._best, "since": self._since, "step": self.step}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._best, self._since, self.step = state["best"], state["since"], state["step"]
