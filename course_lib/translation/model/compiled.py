"""torch.compile where it works."""

from typing import Any

import torch
from torch import Tensor, nn


def compiled_or_not(
    module: nn.Module, trial: tuple[Tensor, ...], backend: str
) -> tuple[nn.Module, str | None]:
    """Give a compiled module, or the module as it is with one line that says why.

    `trial` is an input on which the module gives a number to differentiate. Compiling happens at the first
    pass forward and back, so these are made here, where falling back costs nothing. Sizes are left open:
    batches come in many lengths.
    """
    # Two shapes: what has been compiled for the first must do for the second.
    other = tuple(matrix.repeat(2, *[1] * (matrix.dim() - 1)) for matrix in trial)
    why = None
    try:
        compiled: Any = torch.compile(module, dynamic=True, backend=backend)
        for matrices in (trial, other):
            compiled(*matrices).backward()
    except Exception as error:  # Every backend raises its own.
        torch.compiler.reset()
        first_line = next(iter(str(error).splitlines()), "")
        why = (
            f"torch.compile does not work here ({type(error).__name__}: {first_line[:120]}); training without"
        )
    finally:
        module.zero_grad()
    return (module, why) if why else (compiled, None)
