"""The learning rate, rising and then falling: section 5.3, equation 3 of "Attention Is All You Need"."""

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def learning_rate(step: int, d_model: int, warmup: int, factor: float = 1.0) -> float:
    """Give the rate of update number `step`, the first update being step 1.

    Equation 3, times `factor`: a straight rise over `warmup` updates, then a fall with the root of the step.
    """
    if step < 1:
        raise ValueError(f"the first update is step 1, and step {step} is asked for")
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def make_scheduler(optimizer: Optimizer, d_model: int, warmup: int, factor: float = 1.0) -> LambdaLR:
    """Drive an optimiser, whose own rate is 1.0, so that its update n runs at learning_rate(n).

    Step the scheduler once after each update.
    """
    # LambdaLR counts the updates done so far: 0 before the first.
    return LambdaLR(optimizer, lambda done: learning_rate(done + 1, d_model, warmup, factor))
