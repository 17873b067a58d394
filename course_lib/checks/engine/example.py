"""A small call for which a student's result is wrong, written so that it can be pasted into a cell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from course_lib.checks.engine.candidate import STUDENT_OBJECT, Backend, Candidate, Request
from course_lib.checks.engine.comparison import Comparison
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.outcomes import Outcome
from course_lib.checks.engine.reply import Handle, Raised, Reply, Returned, Value

#: A call whose text is longer than this is not shown.
_MAX_CALL_LENGTH = 420

#: A tensor with more elements than this is not written out.
_MAX_ELEMENTS = 60

#: If a result has more elements than this, only its first wrong row is shown.
_MAX_SHOWN = 12

#: The maximum number of calls that are tried.
_MAX_CALLS = 8


@dataclass(frozen=True)
class Example:
    """A call with its expected and actual results, as Python source."""

    code: tuple[str, ...]
    """The lines of a cell, of which the last one is the call."""
    expected: str
    found: str


def example(exercise: ExerciseCheck, backend: Backend, failed: Sequence[Outcome]) -> Example | None:
    """Return a short call from the failed probes that shows a wrong result, or None if none is found.

    Inputs are rounded to two decimals to keep them short. Long inputs, and the weights of a module, are
    replaced by evenly spaced numbers. The results are computed with these inputs and weights. A module is
    called in evaluation mode. If a result is long, only its first wrong row is shown. There is no example for
    a call longer than `_MAX_CALL_LENGTH` characters, or for values that can't be written as Python source.
    """
    reference = LocalBackend(exercise.reference)
    is_module = isinstance(exercise.reference, type) and issubclass(exercise.reference, nn.Module)
    calls = {_source(call): call for call in _calls(failed)}
    calls = {source: call for source, call in calls.items() if 0 < len(source) <= _MAX_CALL_LENGTH}
    # A `linspace` is short as text, but stands for a large tensor, so prefer other calls.
    for source in sorted(calls, key=lambda text: ("linspace" in text, len(text)))[:_MAX_CALLS]:
        call = calls[source]
        weights = _weights_in_equal_steps(reference, call) if is_module else None
        expected, found = (_reply(one, call, weights) for one in (reference, backend))
        if not isinstance(expected, Returned) or not isinstance(found, Returned):
            continue
        difference = Comparison().difference(expected, found)
        if difference is not None:
            row, right, wrong = _row(difference.position, expected.value, found.value)
            texts = _written(right, 5), _written(wrong, 5)
            if None not in texts and texts[0] != texts[1]:
                code = _code(exercise.name, call, is_module, bool(weights))
                return Example((*code[:-1], code[-1] + row), str(texts[0]), str(texts[1]))
    return None


@dataclass(frozen=True)
class _Call:
    """A call to a function, or to the instance that `build` creates."""

    request: Request
    build: Request | None = None


def _calls(failed: Sequence[Outcome]) -> Iterator[_Call]:
    for outcome in failed:
        built: dict[Handle, Request] = {}
        for request, reply in zip(outcome.requests, outcome.replies, strict=True):
            if request.action == "build" and isinstance(reply, Returned):
                built[reply.value] = request
            elif request.action == "call" and request.of == STUDENT_OBJECT:
                yield _Call(_short(request))
            elif request.action == "call" and request.of in built and not _is_inherited(request.method):
                yield _Call(_short(request, torch.float32), built[request.of])


def _is_inherited(method: str) -> bool:
    """Return whether every module has this method, such as `double`.

    The result of such a method reveals nothing about the student's code.
    """
    return method != "__call__" and hasattr(nn.Module, method)


def _short(request: Request, dtype: torch.dtype | None = None) -> Request:
    """Return a request whose floating-point arguments are short to write, converted to `dtype` if given."""

    def short(item: object) -> object:
        if not isinstance(item, Tensor) or not item.is_floating_point():
            return item
        item = item.to(dtype or item.dtype)
        if item.numel() > _MAX_ELEMENTS:
            return _in_equal_steps(item)
        return item.double().mul(100).round().div(100).to(item.dtype)

    return replace(request, arguments=tuple(map(short, request.arguments)))


def _in_equal_steps(like: Tensor) -> Tensor:
    return torch.linspace(-1, 1, like.numel(), dtype=like.dtype).view(like.shape)


def _weights_in_equal_steps(reference: Backend, call: _Call) -> Mapping[str, Tensor]:
    """Return evenly spaced weights for the module that a call builds.

    The mapping is empty if the module can't be built or has no weights.
    """
    assert call.build is not None
    state = Candidate(reference).build(*call.build.arguments, **call.build.keywords).weights()
    return {n: _in_equal_steps(w) for n, w in state.value.items()} if isinstance(state, Returned) else {}


def _reply(backend: Backend, call: _Call, weights: Mapping[str, Tensor] | None) -> Reply | None:
    """Perform a call and return its reply.

    Unless `weights` is None, the call is to a module, which is first put into evaluation mode and given these
    weights. Returns None if the names of the module's weights differ, or if the weights can't be read.
    """
    candidate = Candidate(backend)
    if call.build is not None:
        candidate = candidate.build(*call.build.arguments, **call.build.keywords)
    if weights is not None:
        state = candidate.weights()
        if isinstance(state, Raised) or state.value.keys() != weights.keys():
            return None
        candidate.train(False)
        candidate.load(weights)
    return candidate.call(*call.request.arguments, method=call.request.method, **call.request.keywords)


def _row(position: tuple[int, ...], expected: Value, found: Value) -> tuple[str, Value, Value]:
    """Return the index of the row at `position`, as Python source, and that row of both tensors.

    If the values aren't long tensors, return an empty string and the values themselves.
    """
    if isinstance(expected, Tensor) and len(position) > 1 and expected.numel() > _MAX_SHOWN:
        row = position[:-1]
        return str(list(row)), expected[row], found[row]
    return "", expected, found


def _code(name: str, call: _Call, is_module: bool, has_weights: bool) -> tuple[str, ...]:
    """Return the lines of a cell that calls the exercise `name`."""
    method = "" if call.request.method == "__call__" else f".{call.request.method}"
    build = "" if call.build is None else _arguments(call.build)
    end = f"{method}{_arguments(call.request)}"
    made = f"{name}{build}{'.eval()' * is_module}"
    if not has_weights:
        return (f"{made}{end}",)
    return (
        f"module = {made}",
        "state = module.state_dict()",
        "steps = {n: torch.linspace(-1, 1, w.numel()).view_as(w) for n, w in state.items()}",
        "module.load_state_dict(steps)",
        f"module{end}",
    )


def _source(call: _Call) -> str:
    """Return the arguments of a call as Python source, or an empty string if that is impossible."""
    texts = [_arguments(request) for request in (call.build, call.request) if request is not None]
    return "" if None in texts else "".join(map(str, texts))


def _arguments(request: Request) -> str | None:
    """Return the arguments of a request as Python source with parentheses, or None if that is impossible."""
    arguments = [_written(item) for item in request.arguments]
    keywords = {key: _written(value) for key, value in request.keywords.items()}
    if None in arguments or None in keywords.values():
        return None
    return f"({', '.join([*map(str, arguments), *(f'{key}={text}' for key, text in keywords.items())])})"


def _written(value: Value, digits: int = 2) -> str | None:
    """Return a value as Python source, with the elements of tensors rounded to `digits` decimals.

    Returns None if that is impossible: for a tensor that isn't on the CPU, is complex or has more than
    `_MAX_ELEMENTS` elements that don't come from `_in_equal_steps`, for any other object that isn't a number,
    a string, None, a tuple, a list or a mapping, and for a container that holds such a value.
    """
    if isinstance(value, Tensor):
        if value.device.type != "cpu" or value.is_complex():
            return None
        if value.numel() > _MAX_ELEMENTS:
            if not value.is_floating_point() or not torch.equal(value, _in_equal_steps(value)):
                return None
            dtype = "" if value.dtype is torch.float32 else f", dtype={value.dtype}"
            return f"torch.linspace(-1, 1, {value.numel()}{dtype}).view{tuple(value.shape)}"
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
