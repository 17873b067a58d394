"""The selection of a model's floating-point precision from the config and the hardware."""

from typing import Any

import torch

from course_lib.translation.configs.schema import Precision

#: The dtype of matrix products in each mixed-precision mode.
_MIXED = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def has_bfloat16(device: torch.device) -> bool:
    """Return whether the hardware supports bfloat16 matrix products without emulation."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).major >= 8
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16"))


def resolve_precision(precision: Precision, device: torch.device) -> Precision:
    """Return the precision to use on a device, with `auto` resolved as `TrainingConfig` documents."""
    if precision != "auto":
        return precision
    if has_bfloat16(device):
        return "bfloat16"
    return "float16" if device.type == "cuda" else "float32"


def product_dtype(precision: Precision, device: torch.device) -> torch.dtype | None:
    """Return the dtype of matrix products in mixed precision, or None if the precision is not mixed."""
    return _MIXED.get(resolve_precision(precision, device))


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """Return the autocast context for a forward pass, enabled only for mixed precision."""
    dtype = product_dtype(precision, device)
    return torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None)


def choose_kernels(precision: Precision, device: torch.device) -> None:
    """Select PyTorch's kernels for the whole process, with TF32 if `precision` is "tf32"."""
    if device.type == "cuda":
        # PyTorch would select cuDNN's attention on Hopper GPUs if there is no dropout inside attention, but
        # it takes tens of milliseconds to plan each new shape. Flash attention works on blocks of 128 tokens,
        # and most sentences are much shorter: on an H100, the decoder's self-attention with flash attention
        # took 2.6 times as long as the encoder's self-attention with the memory-efficient kernel. (For very
        # long sentences, flash attention may be faster.)
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cuda.enable_flash_sdp(False)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
