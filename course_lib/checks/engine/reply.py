"""The replies to a probe's requests. They hold only plain values, which can be sent between processes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

#: A tensor, number, boolean, string, dtype, None, `Handle` or `Opaque`, or a tuple or dict of these.
Value = Any


class FrozenList(tuple[Value, ...]):
    """A list as a plain value. It is compared like a tuple, and messages call it a list."""


class Text(str):
    """A string that is data, such as the words of a vocabulary. All other strings state facts."""


@dataclass(frozen=True)
class Handle:
    """A reference to an object in a backend. Number 0 is the student's object; probes create the others."""

    number: int


@dataclass(frozen=True)
class Opaque:
    """A placeholder for a value that isn't plain. It holds only the name of the value's type."""

    type_name: str


@dataclass(frozen=True)
class Returned:
    """The reply to a request that returned a value."""

    value: Value
    changed: tuple[int, ...] = ()
    """The indices of the arguments that the call modified in place, counted from 0."""
    warnings: tuple[str, ...] = ()
    """The warnings that the call caused."""
    forbidden: tuple[str, ...] = ()
    """The functions that the call used although the exercise does not allow them."""
    called: tuple[str, ...] = ()
    """The names of the fixtures that the student's code called, once for each of those calls."""
    printed: str = ""
    """The start of the call's printed output."""


@dataclass(frozen=True)
class Raised:
    """The reply to a request that raised an exception."""

    kind: str
    """The name of the exception's class."""
    message: str
    line: str = ""
    """The student's line that raised the exception, if it is known."""
    note: str = ""
    """LEFTOVER_STUB, RAISED_BY_NAME or empty; for MISSING_PARAMETER, the parameters that the module has."""
    printed: str = ""
    """The start of the call's printed output."""


#: The note of a stub's NotImplementedError in a function that has other code as well.
LEFTOVER_STUB = "leftover stub"

#: The note of an exception from a `raise` or `assert` statement in the student's code, with any message.
RAISED_BY_NAME = "raised by name"

#: The kind of `Raised` for a module that lacks a parameter that the exercise requires.
MISSING_PARAMETER = "MissingParameter"

#: The kind of `Raised` for a parameter whose shape isn't the one that the exercise requires.
WRONG_SHAPE = "WrongShape"

#: The kind of `Raised` for a result that is larger than any exercise needs.
RESULT_TOO_LARGE = "ResultTooLarge"

#: The kind of `Raised` for code that exceeded the time limit.
OUT_OF_TIME = "OutOfTime"

#: The kind of `Raised` after the process that held the student's objects has died.
KERNEL_DIED = "KernelDied"

Reply = Returned | Raised

_Value = TypeVar("_Value")


#: The maximum number of plain values in a returned value, and the maximum nesting depth.
MAX_VALUES, MAX_DEPTH = 50_000, 30

#: The maximum size of a tensor in bytes. A single element can be expanded to gigabytes, which a copy would
#: allocate.
MAX_BYTES = 64 * 2**20

#: The maximum size of an integer in bits. Much larger integers can't be converted to a float or printed.
MAX_BITS = 990

#: The dtypes of plain tensors by name. Torch has limited support for other dtypes, such as float8.
DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    )
}


class ResultTooLarge(Exception):  # noqa: N818 - students may read the name
    """The error raised for a result that is larger than any exercise needs."""


def plain(value: object, known: Sequence[object]) -> Value:
    """Convert a value to plain values.

    Tensors are detached and copied, lists become `FrozenList`, the keys of dicts become strings, and objects
    in `known` become handles. Numbers, strings, None and dtypes are kept. Anything else becomes `Opaque`, and
    so do sparse or nested tensors, tensors of unusual dtypes or without data, and integers of hundreds of
    digits. Raises ResultTooLarge for a value with more items, deeper nesting or a larger tensor than any
    exercise needs, such as a list that contains itself.
    """
    return _plain(value, known, _Size(), 0)


class _Size:
    """The number of plain values found so far."""

    def __init__(self) -> None:
        self.values = 1

    def add(self, values: int, depth: int) -> None:
        """Add the items of a container. Raises ResultTooLarge for too many items or too large a depth."""
        self.values += values
        if self.values > MAX_VALUES or depth >= MAX_DEPTH:
            raise ResultTooLarge(
                f"The result holds more than {MAX_VALUES} values, or values nested more than {MAX_DEPTH} "
                "levels deep"
            )


def _plain(value: object, known: Sequence[object], size: _Size, depth: int) -> Value:
    if isinstance(value, Tensor):
        if value.is_nested or value.layout is not torch.strided:
            return Opaque("Tensor, nested or sparse")
        if value.is_meta or value.dtype not in DTYPES.values():
            dtype = str(value.dtype).removeprefix("torch.")
            return Opaque(f"Tensor of dtype {dtype} on the device {value.device}")
        if (needed := value.numel() * value.element_size()) > MAX_BYTES:
            raise ResultTooLarge(
                f"The result is a tensor of {needed} bytes, and at most {MAX_BYTES} are expected"
            )
        copy = value.detach().as_subclass(Tensor).clone()
        return copy if type(copy) is Tensor else Opaque(type(copy).__name__)  # such as a FakeTensor
    # A subclass could report a wrong length, or never stop yielding items, so call the base class's methods.
    if isinstance(value, list):
        size.add(list.__len__(value), depth)
        return FrozenList(_each(list.__iter__(value), known, size, depth))
    if isinstance(value, tuple):
        size.add(tuple.__len__(value), depth)
        return tuple(_each(tuple.__iter__(value), known, size, depth))
    if isinstance(value, dict):
        size.add(dict.__len__(value), depth)
        return {str(key): _plain(item, known, size, depth + 1) for key, item in dict.items(value)}
    if isinstance(value, int) and int.bit_length(value) > MAX_BITS:
        return Opaque("int, of hundreds of digits")
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if value is None or isinstance(value, torch.dtype):
        return value
    for index, one in enumerate(known):
        if one is value:
            return Handle(index)
    return Opaque(type(value).__name__)


def _each(items: Iterable[object], known: Sequence[object], size: _Size, depth: int) -> list[Value]:
    # Skip the call for floats, because a tensor converted to a list has many of them.
    return [item if type(item) is float else _plain(item, known, size, depth + 1) for item in items]


def same_numbers(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same shape, dtype and elements. Two NaNs count as the same."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())


def value_of(reply: Reply | Value) -> Value | Raised:
    """Return the value of a reply. `Raised` and plain values are returned unchanged."""
    return reply.value if isinstance(reply, Returned) else reply


def after(reply: Reply, ask: Callable[[], _Value]) -> _Value | Raised:
    """Return the result of `ask()`. If `reply` is `Raised`, return `reply` without calling `ask`."""
    return reply if isinstance(reply, Raised) else ask()


def first_failure(*replies: Reply) -> Reply:
    """Return the first reply that is `Raised`, or the last reply if none is."""
    return next((reply for reply in replies if isinstance(reply, Raised)), replies[-1])
