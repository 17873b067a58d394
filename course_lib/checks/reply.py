"""What comes back from a student's object: plain values only, which can cross from process to process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Raised:
    """A call ended in an exception."""

    kind: str
    """The name of its class."""
    message: str
    line: str = ""
    """The student's line that raised it, where it is known."""


#: The kind of what "was raised" where the student's code had to be stopped.
OUT_OF_TIME = "OutOfTime"

Reply = Returned | Raised


def plain(value: object, known: Sequence[object] = ()) -> Value:
    """Take a value apart into plain ones. A tensor loses its graph, its subclass and the memory it shares.

    Where it is one of the `known` objects, it becomes that one's handle.
    """
    if isinstance(value, Tensor):
        if value.is_nested or value.layout is not torch.strided:
            return Opaque("Tensor, nested or sparse")
        return value.detach().as_subclass(Tensor).clone()
    if isinstance(value, list | tuple):
        return tuple(plain(item, known) for item in value)
    if isinstance(value, dict):
        return {str(key): plain(item, known) for key, item in value.items()}
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if value is None or isinstance(value, torch.dtype):
        return value
    for number, one in enumerate(known):
        if one is value:
            return Handle(number)
    return Opaque(type(value).__name__)


def value_of(reply: Reply) -> Value | Raised:
    """Give what a call came back with; an exception stays one."""
    return reply.value if isinstance(reply, Returned) else reply


def after(reply: Reply, ask: Callable[[], Any]) -> Any:
    """Go on only where this succeeded, such as putting weights in: else that is what is to be said."""
    return reply if isinstance(reply, Raised) else ask()


def first_failure(*replies: Reply) -> Reply:
    """Give the first reply that is an exception, such as that of weights that do not fit; else the last."""
    return next((reply for reply in replies if isinstance(reply, Raised)), replies[-1])
