"""The number formats that a model computes in: what the config asks for, and what the hardware supports."""

from typing import Any, Literal

import torch

Precision = Literal["auto", "float32", "tf32", "bfloat16", "float16", "float64"]
#: The dtype of matrix products, if it is not that of the weights.
_MIXED = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def has_bfloat16(device: torch.device) -> bool:
    """Return whether the hardware multiplies matrices in bfloat16, rather than emulating it."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16"))


def resolve_precision(precision: Precision, device: torch.device) -> Precision:
    """Replace `auto` by the best precision for this device."""
    if precision != "auto":
        return precision
    if has_bfloat16(device):
        return "bfloat16"
    return "float16" if device.type == "cuda" else "float32"


def product_dtype(precision: Precision, device: torch.device) -> torch.dtype | None:
    """Return the dtype of matrix products in mixed precision; None if it is that of the weights."""
    return _MIXED.get(resolve_precision(precision, device))


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """Return the context of a forward pass, with matrix products in 16 bits if the precision says so."""
    dtype = product_dtype(precision, device)
    return torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None)
