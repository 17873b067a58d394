"""Messages over a socket, each prefixed with its length as 8 bytes, big-endian."""

import socket
import time
from collections.abc import Callable

#: The maximum size of a message in bytes, which is more than `serialization` can write.
MAX_BYTES = 80 * 2**20

_LENGTH_BYTES = 8


class ChannelClosed(ConnectionError):  # noqa: N818
    """The error raised if the channel is closed, the peer is gone, or a message from it is too long."""


class ChannelTimeout(TimeoutError):  # noqa: N818
    """The error raised if the peer did not send or accept a message in time."""


#: The minimum extension of a timeout in seconds. If less would be gained, the timeout isn't extended.
_MIN_EXTENSION = 0.05


class Channel:
    """A connected socket that sends and receives messages. The first error closes it.

    `max_bytes` is the maximum size of a received message in bytes. `without_core`, if given, returns how many
    seconds the peer has waited for a CPU core so far. Timeouts are extended by this time, because a slow
    reply on a busy machine isn't the peer's fault.
    """

    def __init__(
        self,
        connection: socket.socket,
        max_bytes: int = MAX_BYTES,
        without_core: Callable[[], float] | None = None,
    ) -> None:
        self._connection = connection
        self._max_bytes = max_bytes
        self._without_core = without_core
        self._extended = 0.0
        self._until: float | None = None
        """The time at which the current message times out."""
        self.dead = ""
        """The reason why the channel is closed; empty while it is open."""

    def send(self, message: bytes, seconds: float | None = None) -> None:
        """Send a message, with an optional timeout in seconds.

        Raises ChannelClosed if the channel is closed or the peer is gone, or ChannelTimeout if the peer
        doesn't accept the message in time.
        """
        self._start(seconds)
        left = memoryview(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
        while left:
            self._set_timeout("the peer did not accept a message in time")
            try:
                left = left[self._connection.send(left) :]
            except TimeoutError:
                pass
            except OSError as error:
                raise self._end(ChannelClosed(f"the peer has closed the connection: {error}")) from None

    def receive(self, seconds: float | None = None) -> bytes:
        """Wait for a message, with an optional timeout in seconds.

        Raises ChannelClosed if the channel is closed, the peer is gone, or the message is longer than the
        channel's limit, or ChannelTimeout if the peer doesn't send a message in time.
        """
        self._start(seconds)
        length = int.from_bytes(self._exactly(_LENGTH_BYTES), "big")
        if length > self._max_bytes:
            raise self._end(
                ChannelClosed(f"the announced message has {length} bytes, more than {self._max_bytes}")
            )
        return self._exactly(length)

    def close(self, why: str) -> None:
        """Close the channel and record the reason in `dead`, unless there already is one."""
        self.dead = self.dead or why
        self._connection.close()

    def _start(self, seconds: float | None) -> None:
        """Start the timeout of a message. Raises ChannelClosed if the channel is closed."""
        if self.dead:
            raise ChannelClosed(self.dead)
        self._until = None if seconds is None else time.monotonic() + seconds

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            self._set_timeout("the peer did not answer in time")
            try:
                # Don't allocate the announced length in advance: the peer may never send that much.
                piece = self._connection.recv(min(count - len(received), 2**20))
            except TimeoutError:
                continue
            except OSError as error:
                raise self._end(ChannelClosed(f"the peer has closed the connection: {error}")) from None
            if not piece:
                raise self._end(ChannelClosed("the peer has closed the connection"))
            received += piece
        return bytes(received)

    def _set_timeout(self, problem: str) -> None:
        """Set the socket's timeout to the time left for the current message.

        If no time is left, extend the timeout by the time for which the peer has waited for a CPU core. If
        that gains too little, raise ChannelTimeout with the message `problem`.
        """
        left = None if self._until is None else self._until - time.monotonic()
        if left is not None and left <= 0:
            waited = self._without_core() if self._without_core is not None else 0.0
            left = waited - self._extended
            if left < _MIN_EXTENSION:
                raise self._end(ChannelTimeout(problem))
            self._extended, self._until = waited, time.monotonic() + left
        self._connection.settimeout(left)

    def _end(self, error: Exception) -> Exception:
        self.close(str(error))
        return error
