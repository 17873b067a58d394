"""torch.compile, with a fallback to the module as it is."""

from typing import Any

import torch
from torch import Tensor, nn


def compile_or_fall_back(
    module: nn.Module, example: tuple[Tensor, ...], backend: str
) -> tuple[nn.Module, str | None]:
    """Compile a module; if that fails, return the module itself and one line with the reason.

    `example` is an input for which the module computes a loss. Compilation happens during the first forward
    and backward pass, so these are run here, where falling back costs nothing. Sizes are dynamic, because
    batches come in many lengths.
    """
    # A second shape checks that the compiled code isn't specialised to the first.
    other = tuple(matrix.repeat(2, *[1] * (matrix.dim() - 1)) for matrix in example)
    reason = None
    try:
        compiled: Any = torch.compile(module, dynamic=True, backend=backend)
        for inputs in (example, other):
            compiled(*inputs).backward()
    except Exception as error:  # Each backend raises its own exceptions.
        torch.compiler.reset()
        first_line = next(iter(str(error).splitlines()), "")
        reason = f"torch.compile failed ({type(error).__name__}: {first_line[:120]}); training without it"
    finally:
        module.zero_grad()
    return (module, reason) if reason else (compiled, None)
