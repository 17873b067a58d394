"""The number formats that a model computes in: what the config asks for, and what the hardware supports."""

from typing import Any, Literal

import torch

Precision = Literal["auto", "float32", "bfloat16", "float64"]


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
    return "bfloat16" if has_bfloat16(device) else "float32"


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """Return the context of a forward pass, with matrix products in bfloat16 if the precision says so."""
    enabled = resolve_precision(precision, device) == "bfloat16"
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)
