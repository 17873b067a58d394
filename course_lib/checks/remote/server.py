"""Serve a student's objects to a check in another process. This code runs in the kernel with the objects.

Each message is a dict: `"do"` names the operation, and the other entries are its arguments. The counterpart
is `course_lib.checks.remote.client`.
"""

import socket
from collections.abc import Mapping
from typing import Any

from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import RESULT_TOO_LARGE, Raised, Reply
from course_lib.checks.remote.serialization import SerializationError, pack, unpack
from course_lib.checks.remote.transport import Channel, ChannelClosed

#: The maximum number of names that are reported, and the maximum length of each.
MAX_NAMES, MAX_NAME_LENGTH = 10_000, 100


def serve(connection: socket.socket, names: Mapping[str, object]) -> None:
    """Answer requests about the objects in `names` until the client sends "done" or disconnects.

    Objects that the client creates exist until then. Every exception in the student's code is returned as
    `Raised`, even KeyboardInterrupt and SystemExit.
    """
    channel = Channel(connection)
    backends: dict[str, LocalBackend] = {}
    while True:
        try:
            message = unpack(channel.receive())
            if message["do"] == "done":
                return
            answer = _packed(_names(names) if message["do"] == "names" else _asked(message, names, backends))
        except ChannelClosed:
            return
        except BaseException as error:  # An interrupt may arrive late, for example.
            answer = pack(Raised(type(error).__name__, "this exception interrupted the check"))
        try:
            channel.send(answer)
        except ChannelClosed:
            return


def _packed(answer: object) -> bytes:
    try:
        return pack(answer)
    except SerializationError as error:
        return pack(Raised(RESULT_TOO_LARGE, f"The result cannot be inspected: {error}"))


def is_public_name(name: object) -> bool:
    """Return whether an object is a public name of at most `MAX_NAME_LENGTH` characters."""
    return isinstance(name, str) and not name.startswith("_") and len(name) <= MAX_NAME_LENGTH


def _names(names: Mapping[str, object]) -> tuple[str, ...]:
    """Return at most `MAX_NAMES` public names."""
    return tuple(filter(is_public_name, list(names)))[:MAX_NAMES]


def _asked(
    message: Mapping[str, Any], names: Mapping[str, object], backends: dict[str, LocalBackend]
) -> Reply:
    name = message["name"]
    if name not in names:
        return Raised("NameError", f"name {name!r} is not defined")
    if name not in backends:
        backends[name] = LocalBackend(names[name], message["may_not_call"], catches=BaseException)
    return backends[name].ask(message["request"])
