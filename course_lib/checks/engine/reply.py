"""What comes back from a student's object: plain values only, which can cross from process to process."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

#: A tensor, number, truth value, string, None, a handle, or a tuple or dict of these.
Value = Any


@dataclass(frozen=True)
class Handle:
    """Which of the holder's objects is meant: 0 is the student's own, the others the probe has made."""

    number: int


@dataclass(frozen=True)
class Opaque:
    """Something that is no plain value: only the name of its type is kept."""

    type_name: str


@dataclass(frozen=True)
class Returned:
    """A call came back with a value."""

    value: Value
    changed: tuple[int, ...] = ()
    """Which arguments the call changed, counted from 0."""
    warnings: tuple[str, ...] = ()
    """The warnings that the call gave."""
    forbidden: tuple[str, ...] = ()
    """The functions that the call used although the exercise rules them out."""
    called: tuple[str, ...] = ()
    """The names of the fixtures that the call was given, once for each time that it called them."""
    printed: str = ""
    """The beginning of what the call printed."""


@dataclass(frozen=True)
class Raised:
    """A call ended in an exception."""

    kind: str
    """The name of its class."""
    message: str
    line: str = ""
    """The student's line that raised it, where it is known."""
    note: str = ""
    """LEFTOVER_STUB if the student's function has code besides the stub that raised, or RAISED_BY_NAME; for
    MISSING_PARAMETER, the parameters that there are."""
    printed: str = ""
    """The beginning of what the call printed."""


#: The note of a stub's NotImplementedError in a function that has other code as well.
LEFTOVER_STUB = "leftover stub"

#: The note of an exception from a `raise` statement of the student, who chose its message freely.
RAISED_BY_NAME = "raised by name"

#: The kind of what "was raised" where a module lacks a parameter that the contract names.
MISSING_PARAMETER = "MissingParameter"

#: The kind of what "was raised" where the student's code had to be stopped.
OUT_OF_TIME = "OutOfTime"

#: The kind of what "was raised" where the process that held the student's objects can say no more.
KERNEL_DIED = "KernelDied"

Reply = Returned | Raised

_Value = TypeVar("_Value")


#: So many plain values are taken out of one that is returned, and so deep inside each other.
MOST_VALUES, DEEPEST = 50_000, 30

#: A tensor of more is not looked at. One number, expanded, can claim to be gigabytes, and a copy would be.
MOST_BYTES = 64 * 2**20

#: A longer whole number than this could not be compared with a float, nor printed.
MOST_BITS = 990


def plain(value: object, known: Sequence[object] = ()) -> Value:
    """Take a value apart into plain ones. A tensor loses its graph, its subclass and the memory it shares.

    Where it is one of the `known` objects, it becomes that one's handle. Raises ValueError where it holds
    more values, or deeper ones, than anything that an exercise asks for, such as a list that holds itself.
    """
    return _plain(value, known, itertools.count(1), 0)


def _plain(value: object, known: Sequence[object], number: Iterator[int], depth: int) -> Value:
    if depth > DEEPEST or next(number) > MOST_VALUES:
        raise ValueError(
            f"what came back holds more than {MOST_VALUES} values, or values more than {DEEPEST} deep"
        )
    if isinstance(value, Tensor):
        if value.is_nested or value.layout is not torch.strided:
            return Opaque("Tensor, nested or sparse")
        if (size := value.numel() * value.element_size()) > MOST_BYTES:
            raise ValueError(
                f"what came back is a tensor of {size} bytes, and at most {MOST_BYTES} are expected"
            )
        return value.detach().as_subclass(Tensor).clone()
    if isinstance(value, list | tuple):
        return tuple(_plain(item, known, number, depth + 1) for item in value)
    if isinstance(value, dict):
        return {str(key): _plain(item, known, number, depth + 1) for key, item in value.items()}
    if isinstance(value, int) and int.bit_length(value) > MOST_BITS:
        return Opaque("int, of hundreds of digits")
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if value is None or isinstance(value, torch.dtype):
        return value
    for place, one in enumerate(known):
        if one is value:
            return Handle(place)
    return Opaque(type(value).__name__)


def value_of(reply: Reply) -> Value | Raised:
    """Return the value of a reply; an exception stays a `Raised`."""
    return reply.value if isinstance(reply, Returned) else reply


def after(reply: Reply, ask: Callable[[], _Value]) -> _Value | Raised:
    """Call `ask` if this request succeeded, such as loading weights; otherwise return its failure."""
    return reply if isinstance(reply, Raised) else ask()


def first_failure(*replies: Reply) -> Reply:
    """Return the first reply that is an exception, or the last reply if none is."""
    return next((reply for reply in replies if isinstance(reply, Raised)), replies[-1])
