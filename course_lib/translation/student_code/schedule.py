"""A student's schedule, so that a run that starts again goes on with it."""

import warnings
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


class OwnSchedule(LRScheduler):
    """Drives an optimiser by what a student's `make_scheduler` makes.

    Whatever that is (a closure that counts for itself, an object that no file can keep), after n updates it
    is where n steps bring it. So that number is all that is kept, and the steps are made again.
    """

    def __init__(self, optimizer: Optimizer, make: Callable[[], Any]) -> None:
        # It is a scheduler by its methods alone, all of them below: the one inside drives the optimiser.
        self._optimizer = optimizer
        self._make = make
        self._base_rates = [group["lr"] for group in optimizer.param_groups]
        self._scheduler = make()
        self._updates = 0

    def step(self, epoch: int | None = None) -> None:
        """Count an update, and set the rate of the next."""
        self._scheduler.step()
        self._updates += 1

    def get_last_lr(self) -> list[float | Tensor]:
        """Give the rates that the next update is made at."""
        return [float(group["lr"]) for group in self._optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Give all that `load_state_dict` needs."""
        return {"updates": self._updates}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Begin anew, and go as far as the state says."""
        for group, rate in zip(self._optimizer.param_groups, self._base_rates, strict=True):
            group["lr"] = rate
            group.pop("initial_lr", None)
        with warnings.catch_warnings():
            # The optimiser has made its steps in another process.
            warnings.filterwarnings("ignore", "Detected call of", UserWarning)
            self._scheduler, self._updates = self._make(), 0
            for _ in range(state_dict["updates"]):
                self.step()
