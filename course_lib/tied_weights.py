"""Tied weights: parameters of a model that are the same numbers in memory."""

from torch import Tensor


def memory_of(tensor: Tensor) -> tuple[object, ...]:
    """Return a key that is equal for tensors that are the same numbers in memory, such as tied weights."""
    return tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
