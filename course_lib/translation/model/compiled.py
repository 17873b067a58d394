"""torch.compile for each layer of a model, with a fallback to the uncompiled layers.

Each layer is compiled separately, because DDP sends a layer's gradients as soon as its backward pass has
finished, and because layers of the same class share the compiled code.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

#: The maximum number of shapes that a layer is compiled for. PyTorch's default is 8; a layer runs uncompiled
#: for any further shapes.
MAX_SHAPES = 64
# Older versions of torch don't have the option.
_HAS_LIMIT = "recompile_limit" in inspect.signature(torch.compile).parameters
_LIMIT: dict[str, Any] = {"recompile_limit": MAX_SHAPES} if _HAS_LIMIT else {}


def compile_layers(
    layers: list[nn.Module], run: Callable[[], Tensor], backend: str, dynamic: bool
) -> str | None:
    """Compile layers in place. Return None, or one line with the reason if that fails.

    After a failure, the layers run uncompiled. `backend` is the backend of torch.compile, and `run` computes
    a loss with the layers. Compilation happens during the first forward and backward pass, so both run here,
    before training has made any updates, and leave gradients in the parameters. With `dynamic`, the compiled
    code handles variable sizes; otherwise each layer is compiled again for each shape.
    """
    try:
        for layer in layers:
            layer.compile(dynamic=dynamic, backend=backend, **_LIMIT)
        run().backward()
    except Exception as error:  # Each backend raises its own exceptions.
        for layer in layers:
            layer.compile(disable=True)
        torch.compiler.reset()
        first_line = next(iter(str(error).splitlines()), "")
        return f"torch.compile failed ({type(error).__name__}: {first_line[:120]}); training without it"
    return None
