"""The door of the charts: tensors, arrays and lists come in, plain float64 arrays and words go on."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

Numbers: TypeAlias = torch.Tensor | NDArray[Any] | Sequence[Any]
"""What a chart takes for numbers: a tensor of any dtype and device, an array, or nested lists."""

Floats: TypeAlias = NDArray[np.float64]
Booleans: TypeAlias = NDArray[np.bool_]


def from_tensor(values: Numbers, name: str, axes: Sequence[int]) -> Floats:
    """`values` as a float64 array of one of the numbers of axes in `axes`.

    Gradients and devices are left behind; float16, bfloat16, whole numbers and booleans are widened. Raises
    ValueError for something that isn't real numbers, for other axes, or when it holds no number at all.
    """
    array = _as_numpy(values, name)
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"{name}: expected real numbers, got {array.dtype}. Give a tensor, an array or nested lists."
        )
    _check_axes(array, name, axes)
    return array.astype(np.float64)


def mask_from_tensor(mask: Numbers, shape: tuple[int, ...]) -> Booleans:
    """`mask` as a boolean array stretched to `shape`; True means "may look".

    Raises ValueError for a mask that isn't boolean or doesn't stretch to the shape.
    """
    array = _as_numpy(mask, "mask")
    if array.dtype.kind != "b":
        raise ValueError(
            f"mask: expected booleans, True for 'may look', got {array.dtype}. Compare first: mask != 0."
        )
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(
            f"mask: expected a shape that stretches to {shape}, got {array.shape}. "
            "Pass the mask that belongs to these weights."
        ) from None


def as_words(words: Sequence[str], count: int, name: str) -> list[str]:
    """`words` as a list, after checking that there are `count` of them. Raises ValueError otherwise."""
    if isinstance(words, str):
        raise ValueError(f"{name}: expected a list of words, got one string. Split it first: text.split().")
    listed = [str(word) for word in words]
    if len(listed) != count:
        raise ValueError(f"{name}: expected {count} words, one for each row or column, got {len(listed)}.")
    return listed


def _as_numpy(values: Numbers, name: str) -> NDArray[Any]:
    if isinstance(values, torch.Tensor):
        plain = values.detach().cpu()
        return np.asarray((plain.double() if plain.is_floating_point() else plain).numpy())
    try:
        if isinstance(values, list | tuple) and any(isinstance(value, torch.Tensor) for value in values):
            return np.stack([_as_numpy(value, name) for value in values])
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"{name}: expected rows of equal length, got lists that fit no shape ({error})."
        ) from None


def _check_axes(array: NDArray[Any], name: str, axes: Sequence[int]) -> None:
    wanted = " or ".join(map(str, axes))
    if array.ndim not in axes:
        raise ValueError(
            f"{name}: expected {wanted} axes, got the shape {array.shape}. Pick a part by index, as in x[0]."
        )
    if array.size == 0:
        raise ValueError(f"{name}: expected at least one number, got the shape {array.shape}.")
