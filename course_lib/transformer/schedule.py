"""The learning-rate schedule: section 5.3, equation 3 of "Attention Is All You Need"."""

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def learning_rate(step: int, d_model: int, warmup: int, factor: float = 1.0) -> float:
    """Return the learning rate of update `step`; the first update is step 1.

    This is equation 3 times `factor`: the rate rises linearly over `warmup` updates, then decays with the
    inverse square root of the step.
    """
    if step < 1:
        raise ValueError(f"the first update is step 1, but got step {step}")
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def make_scheduler(optimizer: Optimizer, d_model: int, warmup: int, factor: float = 1.0) -> LambdaLR:
    """Return a scheduler for an optimiser with learning rate 1.0, so that update n uses learning_rate(n).

    Call `step()` once after each update.
    """
    # LambdaLR passes the number of completed updates: 0 before the first.
    return LambdaLR(optimizer, lambda done: learning_rate(done + 1, d_model, warmup, factor))
