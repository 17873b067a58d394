"""Compare what was expected with what was found, and say the first thing that differs."""

import math
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor

from course_lib.checks.engine.reply import OUT_OF_TIME, Opaque, Raised, Reply, Returned, Value

#: How far apart two numbers may lie, relative to the largest expected, by the dtype of the expected.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}

_NUMBER_WORDS = ("no", "one", "two", "three", "four", "five")
_ORDINALS = ("first", "second", "third", "fourth", "fifth")


@dataclass(frozen=True)
class Difference:
    """The first thing in which a reply is not what it should be."""

    facts: str
    """One or two sentences for the student."""
    found: Tensor | None = None
    expected: Tensor | None = None
    """The tensors that differ, where a picture of them would help."""
    position: tuple[int, ...] = ()
    """Where in them the first number stands that differs; empty where their shapes do."""


@dataclass(frozen=True)
class Comparison:
    """How to compare."""

    tolerance: float | None = None
    """How far apart numbers may lie, relative to the largest; None for what is usual for their dtype."""
    messages: bool = False
    """Whether exceptions must also agree in their messages, not only in their kind."""

    def difference(
        self, expected: Reply | Value, found: Reply | Value, name: str = "the result"
    ) -> Difference | None:
        """Compare two replies, or two values of any depth. None means that they are the same."""
        if isinstance(expected, Returned) and isinstance(found, Returned):
            return self._of_replies(expected, found, name)
        if isinstance(found, Raised):
            where = f" In the line: {found.line}" if found.line else ""
            if found.kind == OUT_OF_TIME:
                return Difference(f"Stopped, since {found.message}. Is there a loop that never ends?{where}")
            if isinstance(expected, Raised):
                return self._of_errors(expected, found)
            return Difference(f"It raised {_error(found)}.{where}")
        if isinstance(expected, Raised):
            return Difference(f"Expected {_error(expected)}, and none was raised.")
        if isinstance(expected, Tensor):
            return self._of_tensors(expected, found, name)
        if isinstance(expected, tuple | dict):
            return self._of_containers(expected, found, name)
        if _is_number(expected) and _is_number(found):
            return self._of_numbers(expected, found, name)
        if type(expected) is type(found) and expected == found:
            return None
        return Difference(f"Expected {name} to be {describe(expected)}, found {describe(found)}.")

    def _of_replies(self, expected: Returned, found: Returned, name: str) -> Difference | None:
        in_value = self.difference(expected.value, found.value, name)
        if in_value is not None:
            return in_value
        if expected.changed != found.changed:
            which = " and ".join(f"argument {position + 1}" for position in found.changed) or "no argument"
            return Difference(
                f"It changed {which} in place. Make a new tensor: the caller still needs the old values."
            )
        if expected.warnings != found.warnings:
            return Difference(f"It gave a warning: {found.warnings[0] if found.warnings else 'none'}")
        return None

    def _of_errors(self, expected: Raised, found: Raised) -> Difference | None:
        same = expected.kind == found.kind and (expected.message == found.message or not self.messages)
        return None if same else Difference(f"Expected {_error(expected)}, and it raised {_error(found)}.")

    def _of_numbers(self, expected: float, found: float, name: str) -> Difference | None:
        tolerance = TOLERANCE[torch.float64] if self.tolerance is None else self.tolerance
        if math.isclose(expected, found, rel_tol=tolerance, abs_tol=1e-12) or (expected != expected != found):
            return None
        return Difference(f"Expected {name} to be {expected:.6g}, found {found:.6g}.")

    def _of_containers(self, expected: Value, found: Value, name: str) -> Difference | None:
        if type(expected) is not type(found) or len(expected) != len(found):
            return Difference(f"Expected {name} to be {describe(expected)}, found {describe(found)}.")
        if isinstance(expected, dict):
            if expected.keys() != found.keys():
                return Difference(f"Expected {name} to hold {', '.join(expected)}; found {', '.join(found)}.")
            items = [(key, expected[key], found[key]) for key in expected]
        else:
            items = [
                (
                    f"the {_ORDINALS[i]} of {name}" if i < len(_ORDINALS) else f"part {i + 1} of {name}",
                    left,
                    right,
                )
                for i, (left, right) in enumerate(zip(expected, found, strict=True))
            ]
        for part, left, right in items:
            if (within := self.difference(left, right, part)) is not None:
                return within
        return None

    def _of_tensors(self, expected: Tensor, found: Value, name: str) -> Difference | None:
        if not isinstance(found, Tensor):
            hint = " Is a `return` missing?" if found is None else ""
            return Difference(f"Expected {name} to be {describe(expected)}, found {describe(found)}.{hint}")
        if expected.shape != found.shape:
            shapes = f"{tuple(expected.shape)}, found {tuple(found.shape)}"
            return Difference(f"Expected {name} to have shape {shapes}.", found, expected)
        if expected.dtype != found.dtype:
            return Difference(f"Expected {name} to have dtype {_dtype(expected)}, found {_dtype(found)}.")
        if expected.device != found.device:
            return Difference(f"Expected {name} on the device {expected.device}, found it on {found.device}.")
        if torch.equal(expected, found):
            return None
        wrong = ~self._close(expected, found)
        count = int(wrong.sum())
        if count == 0:
            return None
        position = tuple(int(axis) for axis in wrong.nonzero()[0])
        at = f" to hold, at {list(position)}," if position else " to be"
        facts = f"Expected {name}{at} {_number(expected[position])}, found {_number(found[position])}."
        share = f" {count} of its {wrong.numel()} numbers differ." if position else ""
        return Difference(facts + share, found, expected, position)

    def _close(self, expected: Tensor, found: Tensor) -> Tensor:
        if not expected.is_floating_point():
            return expected == found
        usual = TOLERANCE.get(expected.dtype, TOLERANCE[torch.float64])
        tolerance = usual if self.tolerance is None else self.tolerance
        finite = expected[expected.isfinite()].double().abs()
        largest = float(finite.max()) if finite.numel() else 0.0
        return torch.isclose(
            found.double(),
            expected.double(),
            rtol=tolerance,
            atol=tolerance * max(largest, 1e-6),
            equal_nan=True,
        )


def describe(value: Value) -> str:
    """Say in a few words what a value is."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple):
        count = _NUMBER_WORDS[len(value)] if len(value) < len(_NUMBER_WORDS) else str(len(value))
        return f"a tuple of {count}"
    if isinstance(value, dict):
        return f"a dict of {', '.join(value) or 'nothing'}"
    if isinstance(value, Opaque):
        return f"an object of type {value.type_name}"
    return repr(value)


def _error(raised: Raised) -> str:
    first_line = raised.message.strip().split("\n")[0]
    short = first_line if len(first_line) <= 200 else first_line[:199] + "…"
    return f"{raised.kind}: {short}" if short else raised.kind


def _is_number(value: Value) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _number(entry: Tensor) -> str:
    return f"{float(entry):.6g}" if entry.is_floating_point() else str(entry.item())
