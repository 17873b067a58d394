"""A student's object, and everything that a check can do with it.

A probe works on a `Candidate`. Each operation is a `Request` to the object's `Backend`, which answers with a
`Reply`. Both hold only data that can be sent between processes. So the object can be in this process
(`LocalBackend`) or in another one, and a check can't tell the difference.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from torch import Tensor

from course_lib.checks.engine.reply import Handle, Reply, Returned

#: The object that is checked.
STUDENT_OBJECT = Handle(0)

Action = Literal[
    "call", "gradients", "build", "fixture", "copy", "load", "weights", "train", "modes", "number", "forget"
]

#: The actions that create an object. Their replies contain its handle.
MAKING = ("build", "fixture", "copy")

#: The actions that call the student's code.
CALLING = ("call", "gradients")

#: The time limit of a request in seconds. Correct answers take milliseconds.
SECONDS = 10.0


@dataclass(frozen=True)
class Fixture:
    """A description of an object for the student's code, such as a callable, a model or an optimiser.

    The process that holds the student's object calls `build` with the arguments. An argument can be another
    object that the probe has built.
    """

    name: str
    """The name of the function that builds the object. Another process finds the function by this name."""
    arguments: tuple[object, ...]
    keywords: Mapping[str, object]
    build: Callable[..., object] = field(compare=False, repr=False)
    """The function that builds the object. The backend replaces the handles among its arguments."""


@dataclass(frozen=True)
class Request:
    """A request to perform one operation on the object with the handle `of`.

    The actions "call" and "gradients" call the object's `method`. For "gradients", `toward` is the gradient
    of a loss with respect to the result, from which backpropagation starts. After "forget" with the argument
    True, calls start without the values that earlier calls have left in variables and attributes; more
    arguments limit this to the variables and attributes with these names. With False, this ends, and the
    reply contains the names of the variables and attributes in which calls have left values.
    """

    action: Action
    of: Handle
    arguments: tuple[object, ...] = ()
    """Tensors, numbers, strings, None, fixtures, handles, and tuples and dicts of these."""
    keywords: Mapping[str, object] = field(default_factory=dict)
    method: str = "__call__"
    toward: Tensor | None = None


class Backend(ABC):
    """The holder of a student's objects, which performs a check's requests on them."""

    @abstractmethod
    def ask(self, request: Request) -> Reply:
        """Perform a request. If the student's code raises an exception, return it as `Raised`.

        The reply to "build", "fixture" or "copy" holds the `Handle` of a new object, even if its creation
        failed; every request to that object then returns the failure. The same holds after a "load" that
        failed, because the object's weights are unknown, and for requests with such an object as an argument.
        The random seed is reset before each request.
        """


class Candidate:
    """A student's function, class, instance or number, accessed through requests to its backend."""

    def __init__(self, backend: Backend, handle: Handle = STUDENT_OBJECT) -> None:
        self._backend = backend
        self.handle = handle

    def call(self, *arguments: object, method: str = "__call__", **keywords: object) -> Reply:
        """Call the object, or its method with the name `method`, and return the reply.

        If the call returns an object that the probe has created, the reply's value is that object's `Handle`.
        """
        return self._ask("call", arguments, keywords, method)

    def gradients(self, *arguments: object, toward: Tensor) -> Reply:
        """Call the object, and backpropagate from its result, or from the first of several results.

        `toward` is the gradient of a loss with respect to that result. The reply's value is a dict: "inputs"
        is a tuple with the gradient of each floating-point tensor among the positional arguments, and
        "weights" is a dict with the gradient of each trainable parameter by name. A gradient is None if
        backpropagation doesn't reach the tensor.
        """
        return self._ask("gradients", arguments, toward=toward)

    def build(self, *arguments: object, **keywords: object) -> "Candidate":
        """Create an instance of the student's class with these arguments.

        If this fails, every request to the instance returns the failure.
        """
        return self._another(self._ask("build", arguments, keywords))

    def fixture(self, description: Fixture) -> "Candidate":
        """Build a fixture that the probe inspects later, or that another fixture needs.

        A fixture that is only passed to one call doesn't need this: the `Fixture` itself can be an argument.
        """
        return self._another(self._ask("fixture", (description,)))

    def copy(self) -> "Candidate":
        """Make a deep copy of the instance. If this fails, every request to the copy returns the failure."""
        return self._another(self._ask("copy"))

    def load(self, weights: Mapping[str, Tensor], optional: Mapping[str, Tensor] | None = None) -> Reply:
        """Copy weights into the instance's state dict. All other entries are unchanged.

        Weights in `optional` are ignored if they aren't in the state dict. The reply is `Raised` if any other
        name is missing from the state dict, or if a weight has the wrong shape. Every later request to the
        instance then returns this failure, too.
        """
        return self._ask("load", (dict(weights), dict(optional or {})))

    def weights(self) -> Reply:
        """Return a reply with the instance's state dict."""
        return self._ask("weights")

    def train(self, mode: bool) -> Reply:
        """Switch the instance to training mode if `mode` is True, otherwise to evaluation mode."""
        return self._ask("train", (mode,))

    def modes(self) -> Reply:
        """Return a reply with a dict that maps each module's name to whether it is in training mode."""
        return self._ask("modes")

    def number(self) -> Reply:
        """Return a reply with the answer in a prediction cell.

        Python, NumPy and torch numbers are converted to floats, as is any other value that has the method
        `__float__`, except a bool. All other values are left unchanged. The reply is `Raised` if the
        conversion fails, for example for a tensor of several elements.
        """
        return self._ask("number")

    def _ask(
        self,
        action: Action,
        arguments: tuple[object, ...] = (),
        keywords: Mapping[str, object] | None = None,
        method: str = "__call__",
        toward: Tensor | None = None,
    ) -> Reply:
        positional = tuple(_plain(item) for item in arguments)
        named = {name: _plain(item) for name, item in (keywords or {}).items()}
        return self._backend.ask(Request(action, self.handle, positional, named, method, toward))

    def _another(self, reply: Reply) -> "Candidate":
        assert isinstance(reply, Returned)
        assert isinstance(reply.value, Handle)
        return Candidate(self._backend, reply.value)


def _plain(argument: object) -> object:
    """Return an argument with handles in place of candidates, including those in tuples and fixtures."""
    if isinstance(argument, Candidate):
        return argument.handle
    if isinstance(argument, tuple):
        return tuple(_plain(item) for item in argument)
    if isinstance(argument, Fixture):
        arguments = tuple(_plain(item) for item in argument.arguments)
        keywords = {name: _plain(item) for name, item in argument.keywords.items()}
        return replace(argument, arguments=arguments, keywords=keywords)
    return argument
