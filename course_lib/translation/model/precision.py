"""Which numbers a model computes with: what the config asks for, and what the hardware has."""

from typing import Any, Literal

import torch

from course_lib.translation.training.distributed import Place, global_sum

Precision = Literal["auto", "float32", "bfloat16", "float64"]


def has_bfloat16(device: torch.device) -> bool:
    """Say whether the hardware multiplies matrices in bfloat16, rather than imitating it."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16"))


def settled(precision: Precision, device: torch.device) -> Precision:
    """Give what `auto` means on this device; all else as it is."""
    if precision != "auto":
        return precision
    return "bfloat16" if has_bfloat16(device) else "float32"


def settled_by_all(precision: Precision, device: torch.device, place: Place) -> Precision:
    """Give what `auto` means for a run: bfloat16 only where every process's device has it."""
    if precision != "auto":
        return precision
    able = global_sum(place, torch.tensor(int(has_bfloat16(device)), device=device))
    return "bfloat16" if int(able) == place.world_size else "float32"


def arithmetic(precision: Precision, device: torch.device) -> torch.autocast:
    """Give the context of a forward pass: matrix products in bfloat16, or all as the weights are."""
    enabled = settled(precision, device) == "bfloat16"
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)
