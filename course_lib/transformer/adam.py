"""One update of Adam: section 5.3 of "Attention Is All You Need"."""

from jaxtyping import Float
from torch import Tensor


def adam_update(
    parameter: Float[Tensor, "*shape"],
    gradient: Float[Tensor, "*shape"],
    mean: Float[Tensor, "*shape"],
    variance: Float[Tensor, "*shape"],
    step: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.98,
    eps: float = 1e-9,
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Return the parameter, the mean and the variance after update `step`; the first update is step 1.

    This is algorithm 1 of Kingma and Ba 2015 (arXiv 1412.6980), as cited in section 5.3. `mean` and
    `variance` are the running means of the gradients and of their squares, as the previous update returned
    them; before the first update they are zeros. They are returned without the bias correction, which is used
    only to compute the new parameter. `eps` is added to the square root of the corrected variance. The
    arguments are not modified.
    """
    mean = beta1 * mean + (1 - beta1) * gradient
    # Adam calls this mean of squares a variance, although the mean is not subtracted.
    variance = beta2 * variance + (1 - beta2) * gradient**2
    # The running means start at zero, which makes the first ones too small. These divisions remove that bias.
    corrected_mean = mean / (1 - beta1**step)
    corrected_variance = variance / (1 - beta2**step)
    parameter = parameter - lr * corrected_mean / (corrected_variance.sqrt() + eps)
    return parameter, mean, variance
