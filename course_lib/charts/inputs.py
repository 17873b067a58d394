"""Check and convert what callers pass to a chart: tensors, arrays, lists and words."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

Numbers: TypeAlias = torch.Tensor | NDArray[Any] | Sequence[Any]
"""The numbers that a chart accepts: a tensor of any dtype on any device, an array, or nested lists."""

Floats: TypeAlias = NDArray[np.float64]
Booleans: TypeAlias = NDArray[np.bool_]


def from_tensor(values: Numbers, name: str, axes: Sequence[int], *, finite: bool = False) -> Floats:
    """Convert `values` to a float64 array. `axes` lists the allowed numbers of axes.

    Tensors are detached and copied to the CPU, and narrow dtypes are widened. Raises ValueError for anything
    but real numbers and booleans, for any number of axes not in `axes`, for an empty array and, with
    `finite`, for NaN or infinity. The message calls the values `name`.
    """
    array = _as_numpy(values, name)
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"{name}: expected real numbers, got {array.dtype}. Pass a tensor, an array or nested lists."
        )
    if array.ndim not in axes:
        raise ValueError(
            f"{name}: expected {' or '.join(map(str, axes))} axes, got the shape {array.shape}. "
            "Select a part by index, as in x[0]."
        )
    if array.size == 0:
        raise ValueError(f"{name}: expected at least one number, got the shape {array.shape}.")
    if finite and not np.isfinite(array).all():
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity. Find and correct them.")
    return array.astype(np.float64)


def weights_from_tensor(weights: Numbers, axes: Sequence[int]) -> Floats:
    """Convert attention weights to a float64 array. `axes` lists the allowed numbers of axes.

    Raises the same errors as `from_tensor`, and ValueError for NaN and for numbers below 0 or above 1.001.
    """
    array = from_tensor(weights, "weights", axes)
    if not ((array >= 0) & (array <= 1.001)).all():
        raise ValueError(
            f"weights: expected numbers from 0 to 1, got {array.min():.4g} to {array.max():.4g}. "
            "Pass the weights after the softmax."
        )
    return array


def mask_from_tensor(mask: Numbers, shape: tuple[int, ...]) -> Booleans:
    """Convert `mask` to a boolean array broadcast to `shape`; True means "may attend".

    Raises ValueError for a mask that isn't boolean or doesn't broadcast to the shape.
    """
    array = _as_numpy(mask, "mask")
    if array.dtype.kind != "b":
        raise ValueError(
            f"mask: expected booleans, True for 'may attend', got {array.dtype}. Compare first: mask != 0."
        )
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(
            f"mask: expected a shape that broadcasts to {shape}, got {array.shape}. "
            "Pass the mask that belongs to these weights."
        ) from None


def as_words(words: Sequence[str], count: int, name: str) -> list[str]:
    """Return `words` as a list of strings. Raises ValueError unless they are a list of `count` words."""
    if isinstance(words, str):
        raise ValueError(f"{name}: expected a list of words, got one string. Split it first: text.split().")
    listed = [str(word) for word in words]
    if len(listed) != count:
        raise ValueError(f"{name}: expected {count} words, one for each row or column, got {len(listed)}.")
    return listed


def check_count(found: int, maximum: int, name: str, what: str) -> None:
    """Raise ValueError unless `name` has 1 to `maximum` items, which the message calls `what`."""
    if not 1 <= found <= maximum:
        raise ValueError(f"{name}: expected 1 to {maximum} {what}, got {found}.")


def check_index(index: int, count: int, name: str, what: str) -> None:
    """Raise ValueError unless the argument `name`, called `what`, is an index from 0 to `count` - 1."""
    if not 0 <= index < count:
        raise ValueError(f"{name}: expected {what} from 0 to {count - 1}, got {index}.")


def check_above(bound: float, table: pd.DataFrame, column: str, expected: str) -> None:
    """Raise ValueError unless all numbers of a column are finite and above `bound`."""
    numbers = table[column].astype(float)
    allowed = (numbers > bound) & np.isfinite(numbers)
    if not allowed.all():
        row = int(np.argmin(allowed.to_numpy()))
        raise ValueError(f"table: expected {expected}, got {column} {numbers.iloc[row]:g} in row {row}.")


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
            f"{name}: expected rows of equal length, got lists of different lengths ({error})."
        ) from None
