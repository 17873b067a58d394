"""Compare an expected result with a student's, and describe the first difference."""

import math
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Literal, TypeGuard

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import STUDENT_OBJECT
from course_lib.checks.engine.exceptions import error_line, explained, location, shortened
from course_lib.checks.engine.reply import (
    OUT_OF_TIME,
    RAISED_BY_NAME,
    FrozenList,
    Handle,
    Opaque,
    Raised,
    Reply,
    Returned,
    Text,
    Value,
    value_of,
)

#: The tolerance relative to the largest expected number, by the dtype of the expected tensor.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}

GRADIENTS_ARE_CUT = (
    "Gradients are cut by `.detach()`, `.data`, `.item()`, NumPy, `torch.tensor` and `torch.no_grad()`, and "
    "a value that isn't used gets none."
)

#: The beginning of the names of results that describe what a call did, such as "the response for 5 words".
_RESPONSE = "the response"

_NUMBER_WORDS = ("no", "one", "two", "three", "four", "five")
_ORDINALS = ("first", "second", "third", "fourth", "fifth")


@dataclass(frozen=True)
class Difference:
    """The first difference between an expected result and a student's."""

    facts: str
    """A few sentences for the student."""
    found: Tensor | None = None
    expected: Tensor | None = None
    """The tensors that differ, if a picture of them would help."""
    wrong: Tensor | None = None
    """Which elements of the tensors differ; None if the shapes differ or there are no tensors."""
    position: tuple[int, ...] = ()
    """The index of the first element that differs; empty if `wrong` is None."""
    structural: bool = False
    """Whether something other than numbers differs: an exception, a type, a shape or a fact in words."""
    values: tuple[Value, Value] | None = None
    """The expected and the found value that differ, which `relation` describes; None if there are none."""
    gradient: Literal["", "wrong", "missing"] = ""
    """What is wrong with a gradient; empty if the values that differ aren't gradients."""


class GradientName(str):
    """The name of a gradient in a result. A difference between two values with such a name says so."""


@dataclass(frozen=True)
class Arguments:
    """The positional arguments of a call and the names of the parameters that take them."""

    values: tuple[object, ...] = ()
    names: tuple[str, ...] = ()
    """The parameters' names; empty if they aren't known."""

    def name(self, number: int) -> str:
        """Return the name of argument `number`, counted from 0, for messages."""
        return f"`{self.names[number]}`" if number < len(self.names) else f"argument {number + 1}"

    def name_of_input(self, number: int) -> str:
        """Return the name of input `number`, counted from 0 among the arguments that can have a gradient."""
        inputs = [
            index
            for index, value in enumerate(self.values)
            if isinstance(value, Tensor) and value.is_floating_point()
        ]
        known = number < len(inputs) and inputs[number] < len(self.names)
        return self.name(inputs[number]) if known else f"input {number + 1}"

    def described(self) -> str:
        """Return a sentence about the shapes and numbers in a valid call, or "" if none are known."""
        known = [
            f"`{name}` has the shape {tuple(value.shape)}"
            if isinstance(value, Tensor)
            else f"`{name}` is {value}"
            for name, value in zip(self.names, self.values, strict=False)
            if isinstance(value, Tensor | bool | int | float | None)
        ]
        return f"These arguments are valid: {', '.join(known)}." if known else ""


NO_ARGUMENTS = Arguments()

#: Sentences about the likely cause of a result of an unexpected type, by the name of the type.
_CAUSES_OF_TYPES = {
    "ndarray": "Compute with torch, not NumPy.",
    "generator": "A function that contains `yield` returns a generator.",
    "coroutine": "Write `def` instead of `async def`.",
    **dict.fromkeys(
        ("function", "method", "builtin_function_or_method"), "Are the parentheses of a call missing?"
    ),
}


@dataclass(frozen=True)
class Comparison:
    """The rules for comparing a student's results with the expected ones."""

    tolerance: float | None = None
    """The tolerance relative to the largest expected number; None for the default of the dtype."""
    messages: bool = False
    """Whether exceptions must have equal messages, unless `raise` or `assert` statements raised both of them.

    With `messages`, differences in warnings are ignored if the result contains NaN.
    """
    described: bool = True
    """Whether to describe differences, which takes longer than finding them."""
    arguments: Arguments = NO_ARGUMENTS
    """The arguments of the last call, which messages mention by name."""

    def agree(self, expected: Reply | Value, found: Reply | Value) -> bool:
        """Return whether two replies or nested values agree."""
        undescribed = Comparison(self.tolerance, self.messages, described=False)
        return undescribed.difference(expected, found) is None

    def difference(
        self, expected: Reply | Value, found: Reply | Value, name: str = "the result"
    ) -> Difference | None:
        """Return the first difference between two replies or nested values, or None if they agree.

        `name` is the name of the value in the sentences for the student.
        """
        difference = self._difference(expected, found, name)
        if difference is None or not self.described or difference.values:
            return difference
        if isinstance(expected, Reply) or isinstance(found, Reply):
            return difference
        gradient = "wrong" if isinstance(name, GradientName) else difference.gradient
        return replace(difference, values=(expected, found), gradient=gradient)

    def _difference(self, expected: Reply | Value, found: Reply | Value, name: str) -> Difference | None:
        if isinstance(expected, Returned) and isinstance(found, Returned):
            return self._of_replies(expected, found, name)
        if isinstance(found, Raised):
            return self._of_raised(expected, found)
        if isinstance(expected, Raised):
            returned = describe(value_of(found))
            return _structural(
                f"Expected {error_line(expected)} to be raised, but your code returned {returned}."
            )
        if isinstance(expected, Tensor):
            return self._of_tensors(expected, found, name)
        if isinstance(expected, tuple | dict):
            return self._of_containers(expected, found, name)
        if _is_number(expected) and _is_number(found):
            return self._of_numbers(expected, found, name)
        if type(expected) is type(found) and expected == found:
            return None
        if isinstance(expected, bool) and isinstance(found, bool) and (claim := claim_in(name)):
            return _structural(
                f"This should be true, but isn't: {claim}."
                if expected
                else f"This shouldn't be true, but is: {claim}."
            )
        states_a_fact = isinstance(expected, bool | str) and not isinstance(expected, Text)
        other_type = type(expected) is not type(found)
        return Difference(self._expected(name, expected, found), structural=states_a_fact or other_type)

    def _of_replies(self, expected: Returned, found: Returned, name: str) -> Difference | None:
        in_value = self.difference(expected.value, found.value, name)
        if in_value is not None:
            return in_value
        if expected.changed != found.changed:
            which = " and ".join(map(self.arguments.name, found.changed))
            return _structural(
                f"Your code changed {which or 'no argument'} in place, but the caller needs the old values."
            )
        # With `messages`, ignore warnings about NaN: of two ways to compute it, only one may cause a warning.
        is_nan = isinstance(found.value, Tensor) and found.value.isnan().any()
        if expected.warnings != found.warnings and not (self.messages and is_nan):
            warning = found.warnings[0].partition(" (Triggered internally")[0] if found.warnings else "none"
            return _structural(f"Your code caused a warning: {warning}")
        return None

    def _of_raised(self, expected: Reply | Value, found: Raised) -> Difference | None:
        if isinstance(expected, Raised) and found.kind != OUT_OF_TIME:
            free = not self.messages or expected.note == found.note == RAISED_BY_NAME
            if expected.kind == found.kind and (expected.message == found.message or free):
                return None
            if not self.described:
                return _structural("")
            error = f"Expected {error_line(expected)}, but your code raised {error_line(found)}."
            return _structural(f"{error}{location(found)}")
        return _structural(explained(found) if self.described else "")

    def _of_numbers(self, expected: float, found: float, name: str) -> Difference | None:
        tolerance = TOLERANCE[torch.float64] if self.tolerance is None else self.tolerance
        both_nan = math.isnan(expected) and math.isnan(found)
        if both_nan or math.isclose(expected, found, rel_tol=tolerance, abs_tol=1e-12):
            return None
        left, right = _digits(expected, found)
        is_count = isinstance(expected, int) and name.startswith("the number of ")
        return Difference(
            f"Expected {name} to be {left}, got {right}.", structural=math.isnan(found) or is_count
        )

    def _of_containers(self, expected: Value, found: Value, name: str) -> Difference | None:
        # A list is accepted in place of a tuple, because `FrozenList` is a subclass of tuple.
        same_kind = isinstance(found, tuple if isinstance(expected, tuple) else dict)
        if not same_kind or len(expected) != len(found):
            return _structural(self._expected(name, expected, found))
        if isinstance(expected, dict):
            if expected.keys() == found.keys() == {"inputs", "weights"}:
                return self._of_gradients(expected, found)
            if expected.keys() != found.keys():
                names = f"{', '.join(expected)}; got {', '.join(found)}"
                return _structural(f"Expected {name} to have the entries {names}.")
            items = [(key, expected[key], found[key]) for key in expected]
        else:
            items = [
                (part_name(name, number), *pair)
                for number, pair in enumerate(zip(expected, found, strict=True))
            ]
        differences = (self.difference(left, right, part) for part, left, right in items)
        return next((one for one in differences if one is not None), None)

    def _of_gradients(self, expected: Value, found: Value) -> Difference | None:
        needed, arrived = self._gradients(expected), self._gradients(found)
        if needed.keys() != arrived.keys():
            facts = f"Expected gradients of {', '.join(needed)}; got gradients of {', '.join(arrived)}."
            return Difference(facts, structural=True, gradient="wrong")
        cut = [name for name, gradient in needed.items() if gradient is not None and arrived[name] is None]
        if cut:
            names = ", ".join(cut[:4]) + (f" and {len(cut) - 4} more" if len(cut) > 4 else "")
            if len(cut) == len(needed) > 1:
                names = "any input or weight"
            facts = f"No gradient reaches {names}. {GRADIENTS_ARE_CUT}"
            return Difference(facts, structural=True, gradient="missing")
        differences = (
            self.difference(gradient, arrived[name], GradientName(f"the gradient of {name}"))
            for name, gradient in needed.items()
        )
        return next((one for one in differences if one is not None), None)

    def _gradients(self, value: Value) -> dict[str, Tensor | None]:
        inputs = {self.arguments.name_of_input(number): one for number, one in enumerate(value["inputs"])}
        return inputs | {f"`{name}`": one for name, one in value["weights"].items()}

    def _of_tensors(self, expected: Tensor, found: Value, name: str) -> Difference | None:
        if not isinstance(found, Tensor):
            return _structural(self._expected(name, expected, found))
        if expected.shape != found.shape:
            shapes = f"Expected {name} to have shape {tuple(expected.shape)}, got {tuple(found.shape)}"
            return Difference(f"{shapes}{_axes(expected, found)}.", found, expected, structural=True)
        if expected.dtype != found.dtype:
            kind = f"dtype {_dtype(expected)}"
            if expected.is_floating_point() and not found.is_floating_point():
                # A probe may have converted the expected tensor to a wider dtype, so don't name its dtype.
                kind = "a floating-point dtype"
            return _structural(f"Expected {name} to have {kind}, got {_dtype(found)}.")
        if expected.device != found.device:
            return _structural(f"Expected {name} on the device {expected.device}, got it on {found.device}.")
        if torch.equal(expected, found):
            return None
        close = self._close(expected, found)
        if close.all():
            return None
        if not self.described:
            return Difference("")
        wrong = ~close
        count = int(wrong.sum())
        position = tuple(int(index) for index in wrong.nonzero()[0])
        left, right = _digits(expected[position].item(), found[position].item())
        at = f" at {list(position)}" if position else ""
        verb = "differs" if count == 1 else "differ"
        what = "truth values" if expected.dtype == torch.bool else "numbers"
        share = f" {count} of {wrong.numel()} {what} {verb}." if position else ""
        facts = f"Expected {name}{at} to be {left}, got {right}.{share}"
        invalid = found.is_floating_point() and not bool(
            found.isfinite().all() or not expected.isfinite().all()
        )
        return Difference(facts, found, expected, wrong, position, structural=invalid)

    def _expected(self, name: str, expected: Value, found: Value) -> str:
        """Describe an expected and a found value that differ, and suggest a likely cause if one is known."""
        if not self.described:
            return ""
        # A plain `str` states a fact, which isn't quoted. Strings that are data have the type `Text`.
        if type(expected) is str and type(found) is str:
            if name.startswith(_RESPONSE):
                return f"Expected {expected}{name.removeprefix(_RESPONSE)}, got {found}."
            return f"Expected {name} to be {expected}, got {found}."
        fact = expected if type(expected) is str else describe(expected)
        facts = f"Expected {name} to be {fact}, got {describe(found)}."
        if found is None and name == "the result":
            return f"{facts} Is a `return` missing?"
        if isinstance(found, Opaque) and (cause := _CAUSES_OF_TYPES.get(found.type_name)):
            return f"{facts} {cause}"
        if (
            isinstance(expected, Tensor)
            and isinstance(found, tuple)
            and not isinstance(found, FrozenList)
            and [type(item) for item in found] == [Tensor]
        ):
            return f"{facts} Is there an extra comma after the result?"
        return facts

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
    """Describe a value in a few words."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple) and 0 < len(value) < len(_NUMBER_WORDS) and all(map(_is_number, value)):
        numbers = ", ".join(map(describe, value))
        if isinstance(value, FrozenList):
            return f"the list [{numbers}]"
        return f"the tuple ({numbers},)" if len(value) == 1 else f"the tuple ({numbers})"
    if isinstance(value, tuple):
        count = _NUMBER_WORDS[len(value)] if len(value) < len(_NUMBER_WORDS) else str(len(value))
        return f"{'a list' if isinstance(value, FrozenList) else 'a tuple'} of {count}"
    if isinstance(value, dict):
        names = [*value][:4] + ([f"and {len(value) - 4} more"] if len(value) > 4 else [])
        return f"a dict of {', '.join(names) or 'nothing'}"
    if isinstance(value, Opaque):
        return f"an object of type {value.type_name}"
    if isinstance(value, Handle):
        return "the checked object itself" if value == STUDENT_OBJECT else "an object that the check created"
    if isinstance(value, float):
        return f"{value:.6g}"
    return shortened(repr(str(value) if isinstance(value, Text) else value))


def claim_in(name: str) -> str:
    """Return the claim that a name such as "«the mean is near 0»" states, or "" if it states none."""
    return name.strip("«»") if name.startswith("«") else ""


def part_name(name: str, number: int) -> str:
    """Return the name of item `number` of the tuple called `name`. Items are counted from 0.

    For a tuple called "the pair", item 0 is "the first of the pair" and item 5 is "part 6 of the pair". The
    same items of "the result" are "the first returned value" and "returned value 6".
    """
    if name == "the result":
        is_early = number < len(_ORDINALS)
        return f"the {_ORDINALS[number]} returned value" if is_early else f"returned value {number + 1}"
    return f"the {_ORDINALS[number]} of {name}" if number < len(_ORDINALS) else f"part {number + 1} of {name}"


def _structural(facts: str) -> Difference:
    return Difference(facts, structural=True)


def returned_exception(value: Value) -> Difference | None:
    """Return a difference if the value is an exception that should have been raised, or None otherwise.

    Exceptions are recognised by the name of their type, which ends in Error or Exception.
    """
    if not isinstance(value, Opaque) or not value.type_name.endswith(("Error", "Exception")):
        return None
    return _structural(
        f"Your code returned a {value.type_name} instead of raising it. Write `raise`, not `return`."
    )


def _axes(expected: Tensor, found: Tensor) -> str:
    """Describe how the shapes of two tensors differ, or return an empty string if no description fits."""
    left, right = tuple(expected.shape), tuple(found.shape)
    if len(left) == len(right):
        if sorted(left) == sorted(right):
            orders = (
                order for order in permutations(range(len(left))) if tuple(right[i] for i in order) == left
            )
            order = next(orders, ())
            moved = [axis for axis, source in enumerate(order) if axis != source]
            if len(moved) == 2:
                return f": axes {moved[0]} and {moved[1]} are swapped"
            return ": the axes are in the wrong order"
        wrong = [axis for axis in range(len(left)) if left[axis] != right[axis]]
        return f": axis {wrong[0]} has the wrong size" if len(wrong) == 1 else ""
    if len(right) == len(left) + 1:
        extra = [axis for axis in range(len(right)) if right[:axis] + right[axis + 1 :] == left]
        return f": axis {extra[0]} should not be there" if extra else ": there is one axis too many"
    if len(right) == len(left) - 1:
        missing = [axis for axis in range(len(left)) if left[:axis] + left[axis + 1 :] == right]
        return f": axis {missing[0]} of the expected result is missing" if missing else ""
    return ""


def _is_number(value: Value) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _digits(expected: float, found: float) -> tuple[str, str]:
    """Format two numbers with enough digits to show that they differ."""
    for digits in range(6, 18):
        left, right = (
            # Adding 0.0 turns -0.0 into 0.0.
            f"{one + 0.0:.{digits}g}" if isinstance(one, float) else str(one)
            for one in (expected, found)
        )
        if left != right:
            break
    return left, right
