"""A small call for which a student's result is wrong, written so that it can be pasted into a cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import STUDENT_OBJECT, Backend, Request
from course_lib.checks.engine.comparison import Comparison
from course_lib.checks.engine.exercise import Exercise
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import Returned, Value
from course_lib.checks.engine.versions import Outcome

#: A call whose text is longer than this is not shown.
_LONGEST = 420


@dataclass(frozen=True)
class Example:
    """A call with its expected and actual results, as Python source."""

    call: str
    expected: str
    found: str


def example(exercise: Exercise, backend: Backend, failed: Sequence[Outcome]) -> Example | None:
    """Return the shortest call in the failed probes that shows a wrong result, or None if there is none.

    The inputs are rounded to two decimals to keep them short, and the results are computed from the rounded
    inputs. There is no example for a class, for a call longer than `_LONGEST` characters, or for values that
    can't be written as Python source.
    """
    if isinstance(exercise.reference, type):
        return None
    requests = [
        _rounded(request)
        for outcome in failed
        for request in outcome.requests
        if request.of == STUDENT_OBJECT and request.action == "call"
    ]
    written = [(call, request) for request in requests if (call := _call(exercise.name, request))]
    for call, request in sorted(written, key=lambda one: len(one[0])):
        if len(call) > _LONGEST:
            break
        expected, found = LocalBackend(exercise.reference).ask(request), backend.ask(request)
        if not isinstance(expected, Returned) or not isinstance(found, Returned):
            continue
        if Comparison().difference(expected, found) is not None:
            texts = _written(expected.value, 5), _written(found.value, 5)
            if None not in texts and texts[0] != texts[1]:
                return Example(call, str(texts[0]), str(texts[1]))
    return None


def _rounded(request: Request) -> Request:
    arguments = tuple(
        item.double().mul(100).round().div(100).to(item.dtype)
        if isinstance(item, Tensor) and item.is_floating_point()
        else item
        for item in request.arguments
    )
    return replace(request, arguments=arguments)


def _call(name: str, request: Request) -> str:
    """Return a call as Python source, or an empty string if an argument can't be written as source."""
    arguments = [_written(item) for item in request.arguments]
    keywords = {key: _written(value) for key, value in request.keywords.items()}
    if None in arguments or None in keywords.values():
        return ""
    return (
        f"{name}({', '.join([*map(str, arguments), *(f'{key}={text}' for key, text in keywords.items())])})"
    )


def _written(value: Value, digits: int = 2) -> str | None:
    """Return a value as Python source, with the elements of tensors rounded to `digits` decimals.

    Returns None if that is impossible: for a tensor that has more than 60 elements, isn't on the CPU or is
    complex, for any other object that isn't a number, a string, None, a tuple, a list or a mapping, and for a
    container that holds such a value.
    """
    if isinstance(value, Tensor):
        if value.numel() > 60 or value.device.type != "cpu" or value.is_complex():
            return None
        items = _items(value, digits)
        plain = value.dtype in (torch.bool, torch.int64, torch.float32) and value.numel()
        return f"torch.tensor({items})" if plain else f"torch.tensor({items}, dtype={value.dtype})"
    if isinstance(value, tuple | list):
        parts = [_written(item, digits) for item in value]
        if None in parts:
            return None
        inside = ", ".join(map(str, parts))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(parts) == 1 else ''})"
    if isinstance(value, Mapping):
        pairs = {repr(key): _written(item, digits) for key, item in value.items()}
        return None if None in pairs.values() else f"{{{', '.join(f'{k}: {v}' for k, v in pairs.items())}}}"
    return repr(value) if value is None or isinstance(value, bool | int | float | str) else None


def _items(value: Tensor, digits: int) -> str:
    if value.dim():
        return f"[{', '.join(_items(item, digits) for item in value)}]"
    number = value.item()
    return f"{number:.{digits}f}" if isinstance(number, float) else repr(number)
