"""A backend that holds a student's object in this process, for the check cells in JupyterLab."""

import copy
import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import replace
from types import CoroutineType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.checks.engine.call_recorder import CallRecorder
from course_lib.checks.engine.candidate import CALLING, MAKING, SECONDS, Backend, Fixture, Request
from course_lib.checks.engine.kept_values import KeptValues
from course_lib.checks.engine.reply import (
    LEFTOVER_STUB,
    OUT_OF_TIME,
    RAISED_BY_NAME,
    Handle,
    Raised,
    Reply,
    Returned,
    plain,
    same_numbers,
)
from course_lib.checks.engine.tracebacks import ends_in_other_code, raised_on_purpose, student_line
from course_lib.curriculum.stubs import UNWRITTEN
from course_lib.time_limit import OutOfTime, time_limit

#: The maximum length of a recorded message, number of warnings, and length of recorded output.
MAX_MESSAGE_LENGTH, MAX_WARNINGS, MAX_PRINTED = 10_000, 100, 500

#: The maximum number of calls to a fixture that are counted.
MAX_CALLS = 20


class MissingParameter(Exception):  # noqa: N818 - students read the name
    """The error raised if a module lacks a parameter that the exercise requires."""

    def __init__(self, name: str, others: Iterable[str]) -> None:
        super().__init__(f"The module has no parameter called {name!r}")
        # A Transformer has dozens of parameters, so list only those of the same attribute or, if there are
        # none, one for each attribute.
        by_attribute: dict[str, list[str]] = {}
        for other in others:
            by_attribute.setdefault(other.split(".")[0], []).append(other)
        same = by_attribute.get(name.split(".")[0]) or [names[0] for names in by_attribute.values()]
        is_complete = len(same) == sum(map(len, by_attribute.values()))
        verb = "are" if is_complete else "include"
        self.others = f"Its parameters {verb}: {', '.join(same) or 'none'}"


class WrongShape(Exception):  # noqa: N818 - as above
    """The error raised if a parameter doesn't have the shape that the exercise requires."""


class _UnusableArgument(Exception):  # noqa: N818
    """The error raised for an argument that couldn't be created or loaded."""

    def __init__(self, failure: Raised) -> None:
        super().__init__(failure)
        self.failure = failure


class LocalBackend(Backend):
    """The backend that calls the student's object `found` in this process.

    Its replies list the functions in `may_not_call` that were called. With `count_calls`, the attribute
    `calls` counts the calls to torch functions. Timeouts and exceptions derived from Exception or SystemExit
    are returned in the reply. All others propagate, so that students can interrupt a check. For unattended
    runs, `catches` can be BaseException, so that none propagate.
    """

    def __init__(
        self,
        found: object,
        may_not_call: tuple[str, ...] = (),
        catches: type[BaseException] = Exception,
        count_calls: bool = False,
    ) -> None:
        self._objects: list[object] = [found]
        self._may_not_call = may_not_call
        self._count_calls = count_calls
        self.calls = 0
        """The number of calls to torch functions in all requests, if calls are counted."""
        self._caught = (catches, SystemExit, OutOfTime)
        self.stopped: Raised | None = None
        """The timeout of an earlier request, after which the student's code is not run again."""
        self._found = found
        self._kept_values: KeptValues | None = None
        """The values of earlier calls, if calls start without them."""

    def ask(self, request: Request) -> Reply:
        """Perform a request on copies of the arguments, so that the probe's own arguments stay unchanged.

        After the first timeout, the student's code is not run again: every later request returns the timeout.
        """
        if request.action == "forget":
            begins, *only = request.arguments
            return self._forget(bool(begins), [name for name in only if isinstance(name, str)])
        found = self.stopped or self._objects[request.of.number]
        if type(found) is Raised:  # `isinstance` would run a student's `__getattribute__`.
            return self._kept(found) if request.action in MAKING else found
        printed = _Printed()
        try:
            # The time limit covers the inspection of the result, which also runs the student's code, such as
            # the `__str__` of a dict's key.
            with time_limit(SECONDS), as_torch_starts(), torch.random.fork_rng(devices=[]):
                given = tuple(self._given(argument) for argument in request.arguments)
                keywords = {name: self._given(argument) for name, argument in request.keywords.items()}
                forgets = self._kept_values if request.action in CALLING else None
                reset = forgets.reset(found) if forgets else nullcontext()
                with reset, self._surroundings() as (caught, calls), redirect_stdout(printed):
                    value = _ACTIONS[request.action](found, request, given, keywords)
                self.calls += calls.calls
                if request.action not in MAKING:
                    return self._returned(value, request, given, caught, calls, printed)
        except _UnusableArgument as error:
            raised = error.failure
        except self._caught as error:
            raised = replace(_raised(error), printed=printed.getvalue())
            if isinstance(error, OutOfTime):
                self.stopped = raised
            # The object's weights are unknown, so a later result would be misleading.
            if request.action == "load":
                self._objects[request.of.number] = raised
        else:
            return self._kept(value)
        return self._kept(raised) if request.action in MAKING else raised

    def _forget(self, begins: bool, only: list[str]) -> Returned:
        kept, self._objects[0] = self._kept_values, self._found
        self._kept_values = None
        if begins:
            self._kept_values = KeptValues(only)
            # Without its decorators, a function could behave differently for another reason.
            if type(self._found) is FunctionType and not hasattr(self._found, "__wrapped__"):
                self._objects[0] = self._kept_values.forgetting(self._found)
        if kept is None:
            return Returned(())
        kept.stop_watching()
        self.stopped = None  # The code may run for ever without its variables, but not with them.
        return Returned(tuple(sorted(kept.names)[:MAX_CALLS]))

    def _returned(
        self,
        value: object,
        request: Request,
        given: "Given",
        caught: list[warnings.WarningMessage],
        calls: CallRecorder,
        printed: io.StringIO,
    ) -> Returned:
        changed = tuple(
            position
            for position, (before, after) in enumerate(zip(request.arguments, given, strict=True))
            if isinstance(before, Tensor) and not same_numbers(before, after)
        )
        warned = tuple(str(warning.message)[:MAX_MESSAGE_LENGTH] for warning in caught[:MAX_WARNINGS])
        called: list[str] = []
        for argument, made in zip(request.arguments, given, strict=True):
            if isinstance(argument, Fixture) and isinstance(count := getattr(made, "calls", None), int):
                called += [argument.name.replace("_", " ")] * min(count, MAX_CALLS)
        known = self._objects if request.action != "number" else ()
        result = plain(value, known)
        if type(value) is CoroutineType:
            # If it isn't closed, Python warns that it was never awaited, and quotes a line of the check.
            value.close()
        return Returned(result, changed, warned, tuple(calls.seen), tuple(called), printed=printed.getvalue())

    @contextmanager
    def _surroundings(self) -> Iterator[tuple[list[warnings.WarningMessage], CallRecorder]]:
        calls = CallRecorder(self._may_not_call)
        with (
            warnings.catch_warnings(record=True) as caught,
            # Record calls only if that is needed, because it takes time.
            calls.recording() if self._may_not_call or self._count_calls else nullcontext(),
        ):
            warnings.simplefilter("always")
            # torch.manual_seed would also record its caller, which takes longer than most probes.
            torch.default_generator.manual_seed(0)
            # By default, PyTorch issues some warnings only once per process, so a repeated check would pass.
            warns_always = torch.is_warn_always_enabled()
            torch.set_warn_always(True)
            try:
                yield caught, calls
            finally:
                torch.set_warn_always(warns_always)

    def _kept(self, made: object) -> Returned:
        if self._kept_values and isinstance(made, nn.Module):
            with suppress(Exception):  # A student's module can lack everything that a module has.
                self._kept_values.watch(made)
        self._objects.append(made)
        return Returned(Handle(len(self._objects) - 1))

    def _given(self, argument: Any) -> Any:
        if isinstance(argument, Tensor):
            return argument.clone()
        if isinstance(argument, Fixture):
            keywords = {name: self._given(value) for name, value in argument.keywords.items()}
            return argument.build(*map(self._given, argument.arguments), **keywords)
        if isinstance(argument, Handle):
            made = self._objects[argument.number]
            if type(made) is Raised:
                raise _UnusableArgument(made)
            return made
        if isinstance(argument, tuple):
            return tuple(self._given(item) for item in argument)
        if isinstance(argument, dict):
            return {name: self._given(item) for name, item in argument.items()}
        return copy.deepcopy(argument)


class _Printed(io.StringIO):
    """A stream that keeps only the first `MAX_PRINTED` characters of the printed output."""

    def write(self, text: str) -> int:
        room = MAX_PRINTED - self.tell()
        super().write(text[: max(room, 0)])
        return len(text)

    def close(self) -> None:
        """Do nothing, because the student's code may call this while the check still needs the text."""


@contextmanager
def as_torch_starts() -> Iterator[None]:
    """Use the settings that torch starts with: default dtype and device, gradients enabled, no autocast.

    The student's code may have changed these settings. They are restored after the `with` block.
    """
    before, cpu = torch.get_default_dtype(), torch.device("cpu")
    if before is not torch.float32:
        torch.set_default_dtype(torch.float32)
    try:
        with (
            # Enter a device context only if it is needed, because it slows down calls. Asking
            # `torch.get_default_device` would take longer than creating a tensor.
            cpu if torch.empty(0).device != cpu else nullcontext(),
            torch.inference_mode(False),
            torch.autocast("cpu", enabled=False),
            torch.set_grad_enabled(True),
        ):
            yield
    finally:
        if torch.get_default_dtype() is not before:
            torch.set_default_dtype(before)


Given = tuple[Any, ...]
Keywords = Mapping[str, Any]


def _call(found: Any, request: Request, given: Given, keywords: Keywords) -> Any:
    return _method(found, request.method)(*given, **keywords)


def _gradients(found: Any, request: Request, given: Given, keywords: Keywords) -> dict[str, Any]:
    inputs = [
        item.requires_grad_() for item in given if isinstance(item, Tensor) and item.is_floating_point()
    ]
    # Include duplicates, because a weight may have been registered under another name first.
    named = found.named_parameters(remove_duplicate=False) if isinstance(found, nn.Module) else ()
    parameters = {
        name: parameter for name, parameter in (*named, *_aliases(found)) if parameter.requires_grad
    }
    leaves = [*inputs, *parameters.values()]
    # Pass copies, because modifying a leaf in place raises an error. Other probes report such a modification.
    output = _method(found, request.method)(
        *(item.clone() if isinstance(item, Tensor) and item.requires_grad else item for item in given),
        **keywords,
    )
    if isinstance(output, list | tuple):
        output = output[0]
    arrived: tuple[Tensor | None, ...] = (None,) * len(leaves)
    if isinstance(output, Tensor) and output.requires_grad:
        arrived = torch.autograd.grad(output, leaves, request.toward, allow_unused=True)
        arrived = tuple(
            item if item is None or item.layout is torch.strided else item.to_dense() for item in arrived
        )
    return {
        "inputs": arrived[: len(inputs)],
        "weights": dict(zip(parameters, arrived[len(inputs) :], strict=True)),
    }


def _load(found: Any, request: Request, given: Given, keywords: Keywords) -> None:
    entries: Mapping[str, Tensor] = found.state_dict()
    with torch.no_grad():
        weights, optional = given
        if not entries.keys() >= {*weights, *optional}:
            entries = {**dict(_aliases(found)), **entries}
        for name, weight in (weights | optional).items():
            if name not in entries:
                if name in optional:
                    continue
                raise MissingParameter(name, dict(found.named_parameters(remove_duplicate=False)))
            if entries[name].shape != weight.shape:
                shapes = f"{tuple(entries[name].shape)}, not {tuple(weight.shape)}"
                raise WrongShape(f"The parameter {name} has shape {shapes}")
            entries[name].copy_(weight)


def _aliases(found: Any) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield a module's parameters under the names of the properties that return them or their modules."""
    for path, module in found.named_modules() if isinstance(found, nn.Module) else ():
        own = [cls for cls in type(module).__mro__ if cls is not nn.Module and issubclass(cls, nn.Module)]
        for name in (name for cls in own for name, value in vars(cls).items() if isinstance(value, property)):
            part = None
            with suppress(Exception):  # A property may fail until the module has been called.
                part = getattr(module, name)
            full = f"{path}.{name}" if path else name
            if isinstance(part, nn.Parameter):
                yield full, part
            elif isinstance(part, nn.Module):
                yield from ((f"{full}.{inner}", weight) for inner, weight in part.named_parameters())


def _train(found: Any, request: Request, given: Given, keywords: Keywords) -> None:
    found.train(*given)


def _number(found: Any, request: Request, given: Given, keywords: Keywords) -> Any:
    # NumPy and PyTorch have their own boolean types.
    is_truth_value = isinstance(found, bool) or str(getattr(found, "dtype", "")) in ("bool", "torch.bool")
    is_number = hasattr(found, "__float__") and not is_truth_value
    return float(found) if is_number else found


_ACTIONS: dict[str, Callable[[Any, Request, Given, Keywords], Any]] = {
    "call": _call,
    "build": _call,
    "fixture": lambda found, request, given, keywords: given[0],
    "copy": lambda found, *_: copy.deepcopy(found),
    "gradients": _gradients,
    "load": _load,
    "weights": lambda found, *_: dict(found.state_dict()),
    "train": _train,
    "modes": lambda found, *_: {name: module.training for name, module in found.named_modules()},
    "number": _number,
}


def _method(found: Any, name: str) -> Callable[..., Any]:
    if name == "__call__" and not callable(found):
        raise TypeError(f"expected a function or a class, got an object of type {type(found).__name__}")
    return found if name == "__call__" else getattr(found, name)


def _raised(error: BaseException) -> Raised:
    line = student_line(error.__traceback__)[:MAX_MESSAGE_LENGTH]
    if isinstance(error, OutOfTime):
        return Raised(OUT_OF_TIME, f"the call did not return within {SECONDS:g} seconds", line)
    try:
        with time_limit(SECONDS):
            message = str(error)[:MAX_MESSAGE_LENGTH]
    except OutOfTime:
        return Raised(OUT_OF_TIME, f"reading an exception's message took more than {SECONDS:g} seconds", line)
    except (Exception, SystemExit) as another:
        message = f"(reading its message raised {type(another).__name__})"
    return Raised(type(error).__name__, message, line, _note(error, message))


def _note(error: BaseException, message: str) -> str:
    """Return the value of `Raised.note` for an exception with this message."""
    if isinstance(error, MissingParameter):
        return error.others
    if type(error) is not NotImplementedError:
        return RAISED_BY_NAME if raised_on_purpose(error.__traceback__, by_course=False) else ""
    is_stub = not message or UNWRITTEN in message
    return LEFTOVER_STUB if is_stub and ends_in_other_code(error.__traceback__) else ""
