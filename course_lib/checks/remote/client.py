"""Proxies through which a check uses a student's objects in another process."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from course_lib.checks.engine.candidate import MAKING, SECONDS, STUDENT_OBJECT, Action, Backend, Request
from course_lib.checks.engine.reply import KERNEL_DIED, OUT_OF_TIME, Handle, Raised, Reply, Returned
from course_lib.checks.remote.serialization import SerializationError, pack, unpack, unpack_reply
from course_lib.checks.remote.server import MAX_NAMES, is_public_name
from course_lib.checks.remote.transport import Channel, ChannelClosed, ChannelTimeout

#: The timeout for a reply. The server stops the student's code a little earlier.
TIMEOUT = SECONDS + 5.0


class StudentError(Exception):
    """An exception in a student's code. Its message contains the original class and text."""


class RemoteObject(Backend):
    """A backend for the object called `name` in the process at the other end of `channel`.

    The server has one backend for each name, so there must be only one `RemoteObject` for each name as well.
    `may_not_call` lists the functions that the object must not call, and `timeout` is the timeout of a reply
    in seconds. If a request times out or the channel fails, this and every later request fails with the same
    `Raised`; a request to create an object still returns a handle. `channel.dead` contains the reason if
    the channel failed.
    """

    def __init__(
        self, channel: Channel, name: str, may_not_call: Sequence[str] = (), timeout: float = TIMEOUT
    ) -> None:
        self._channel = channel
        self._name = name
        self._may_not_call = tuple(may_not_call)
        self._timeout = timeout
        self._count = 1
        """The number of objects in the server's backend."""
        self._stopped: Raised | None = None

    def ask(self, request: Request) -> Reply:
        """Send a request and return the reply. An invalid reply closes the channel."""
        making = request.action in MAKING
        if self._stopped is None:
            reply = self._reply(request, making)
            if not isinstance(reply, Raised) or not (making or reply.kind == OUT_OF_TIME):
                return reply
            # Do not wait again for code that has exceeded its time limit.
            self._stopped = reply
        # The object does not exist, so any handle will do: every later request returns the failure.
        return Returned(STUDENT_OBJECT) if making else self._stopped

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the object and return its result. Raises StudentError if the call fails."""
        reply = self.ask(Request("call", STUDENT_OBJECT, arguments, keywords))
        if isinstance(reply, Raised):
            raise StudentError(f"{reply.kind}: {reply.message}")
        return reply.value

    def _reply(self, request: Request, making: bool) -> Reply:
        message = {
            "do": "ask",
            "name": self._name,
            "may_not_call": self._may_not_call,
            "request": request,
        }
        data = _exchange(self._channel, pack(message), self._timeout)
        if isinstance(data, Raised):
            self._stopped = data
            return data
        try:
            reply = unpack_reply(data, self._count + making)
            if isinstance(reply, Returned):
                _refuse_unfitting(request, reply, Handle(self._count))
        except SerializationError as error:
            self._stopped = _ended(self._channel, error)
            return self._stopped
        self._count += making
        return reply


def student_objects(
    channel: Channel,
    may_not_call: Mapping[str, Sequence[str]] | None = None,
    timeout: float = TIMEOUT,
    first_timeout: float = TIMEOUT,
) -> dict[str, RemoteObject]:
    """Return a `RemoteObject` for each public name that the student's code defines, by name.

    Returns an empty dict if the process doesn't send a valid list of names in time. `may_not_call` maps the
    name of an exercise to the functions that it forbids. `timeout` is the timeout of a reply in seconds.
    `first_timeout` is the timeout of the list of names, which is sent without running the student's code.
    """
    forbidden = may_not_call or {}
    data = _exchange(channel, pack({"do": "names"}), first_timeout)
    if isinstance(data, Raised):
        return {}
    try:
        names = unpack(data, handles=0)
        if not isinstance(names, tuple) or len(names) > MAX_NAMES or not all(map(is_public_name, names)):
            raise SerializationError(f"expected a tuple of at most {MAX_NAMES} names")
    except SerializationError as error:
        _ended(channel, error)
        return {}
    return {name: RemoteObject(channel, name, forbidden.get(name, ()), timeout) for name in names}


def _exchange(channel: Channel, message: bytes, timeout: float) -> bytes | Raised:
    """Send a message and return the reply, or a `Raised` with the reason if the channel fails or times out.

    `timeout` is the timeout in seconds, both for sending the message and for receiving the reply.
    """
    try:
        channel.send(message, timeout)
        return channel.receive(timeout)
    except ChannelTimeout:
        return Raised(OUT_OF_TIME, f"the call did not return within {timeout:g} seconds")
    except ChannelClosed as error:
        return _ended(channel, error)


def _ended(channel: Channel, error: Exception) -> Raised:
    channel.close(str(error))
    return Raised(KERNEL_DIED, f"the notebook's kernel did not answer: {error}")


def _refuse_unfitting(request: Request, reply: Returned, made: Handle) -> None:
    """Raise SerializationError if a reply doesn't fit its request, because probes rely on its structure.

    `made` is the handle that the reply to a request that creates an object must contain.
    """
    value, action = reply.value, request.action
    expected: dict[Action, bool] = {
        "weights": isinstance(value, dict),
        "modes": isinstance(value, dict),
        "load": value is None,
        "train": value is None,
        "gradients": _are_gradients(value),
        "forget": isinstance(value, tuple),
    }
    fits = value == made if action in MAKING else expected.get(action, True)
    if not fits or any(index >= len(request.arguments) for index in reply.changed):
        raise SerializationError(f"the reply is not an answer to {action!r}")


def _are_gradients(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"inputs", "weights"}:
        return False
    inputs, weights = value["inputs"], value["weights"]
    return (
        isinstance(inputs, tuple)
        and isinstance(weights, dict)
        and all(item is None or isinstance(item, Tensor) for item in (*inputs, *weights.values()))
    )
