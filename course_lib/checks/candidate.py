"""What a check may do with a student's object, and nothing else.

A probe works on a `Candidate`. Each thing that it does is one plain `Request` to the `Holder` of the object,
and one plain `Reply` back. So the object can live in this process (`LocalHolder`) or in another, and a check
can't tell.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from torch import Tensor

from course_lib.checks.reply import Reply, Returned

Action = Literal["call", "gradients", "build", "load", "weights", "train", "copy", "number"]


@dataclass(frozen=True)
class Fixture:
    """A callable or a model that a probe hands to the student's object, by its name among the fixtures.

    It is data, not code: the holder of the student's object builds the real thing from it.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Handle:
    """Which of the holder's objects is meant: 0 is the student's own, the others were built from it."""

    number: int = 0


@dataclass(frozen=True)
class Request:
    """One thing to do with one object."""

    action: Action
    of: Handle
    arguments: tuple[Any, ...] = ()
    """Tensors, numbers, strings, None, tuples and dicts of these, fixtures, handles."""
    method: str = "__call__"
    toward: Tensor | None = None


@runtime_checkable
class Holder(Protocol):
    """Whoever holds the student's objects and does with them what a check asks."""

    def ask(self, request: Request) -> Reply:
        """Do it. What the student's code raises comes back as `Raised`; nothing is raised here.

        "build" and "copy" come back with the `Handle` of a new object, also where it could not be made: such
        an object answers every request with the reason.
        """
        ...


class Candidate:
    """A student's function, class, instance or number, at arm's length."""

    def __init__(self, holder: Holder, handle: Handle = Handle()) -> None:
        self._holder = holder
        self.handle = handle

    def call(self, *arguments: Any, method: str = "__call__") -> Reply:
        """Call the object, or one of its methods."""
        return self._ask("call", arguments, method)

    def gradients(self, *arguments: Any, toward: Tensor, method: str = "__call__") -> Reply:
        """Call the object, and send `toward` back through what it returns (of several, the first).

        The value is a dict: "inputs" holds one gradient for each floating argument, "weights" one for each
        parameter by name. Where none arrives there is None.
        """
        return self._ask("gradients", arguments, method, toward)

    def build(self, *arguments: Any) -> "Candidate":
        """Make an instance of a class."""
        return self._another(self._ask("build", arguments))

    def copy(self) -> "Candidate":
        """Make a deep copy of an instance."""
        return self._another(self._ask("copy"))

    def load(self, weights: Mapping[str, Tensor]) -> Reply:
        """Put weights into some entries of an instance's state dict. A name that it lacks is `Raised`."""
        return self._ask("load", (dict(weights),))

    def weights(self) -> Reply:
        """Read an instance's state dict."""
        return self._ask("weights")

    def train(self, mode: bool) -> Reply:
        """Switch an instance to training mode, or with False to evaluation mode."""
        return self._ask("train", (mode,))

    def number(self) -> Reply:
        """Read the plain number of a predict cell, of Python, torch or numpy, as a float."""
        return self._ask("number")

    def _ask(
        self,
        action: Action,
        arguments: tuple[Any, ...] = (),
        method: str = "__call__",
        toward: Tensor | None = None,
    ) -> Reply:
        plain = tuple(item.handle if isinstance(item, Candidate) else item for item in arguments)
        return self._holder.ask(Request(action, self.handle, plain, method, toward))

    def _another(self, reply: Reply) -> "Candidate":
        assert isinstance(reply, Returned)
        assert isinstance(reply.value, Handle)
        return Candidate(self._holder, reply.value)
