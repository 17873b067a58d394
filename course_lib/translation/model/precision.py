"""The selection of a model's floating-point precision from the config and the hardware."""

from typing import Any

import torch

from course_lib.translation.configs.schema import Precision

#: The dtype of matrix products for each mixed precision.
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
