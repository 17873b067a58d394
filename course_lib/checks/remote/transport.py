"""Messages over a socket, each prefixed with its length as 8 bytes, big-endian."""

import socket
import time

#: The maximum size of a message in bytes, slightly more than `serialization` writes.
LONGEST = 80 * 2**20

_LENGTH_BYTES = 8


class ChannelClosed(ConnectionError):  # noqa: N818
    """An error for a connection that the peer has closed."""


class ChannelTimeout(TimeoutError):  # noqa: N818
    """An error for a peer that did not answer in time."""


class ChannelOverrun(ValueError):  # noqa: N818
    """An error for a message whose announced length exceeds the limit."""


class Channel:
    """A connected socket that sends and receives messages. The first error closes it."""

    def __init__(self, connection: socket.socket, longest: int = LONGEST) -> None:
        self._connection = connection
        self._longest = longest
        self.dead = ""
        """The reason why the channel is closed; empty while it is open."""

    def send(self, message: bytes, seconds: float | None = None) -> None:
        """Send a message, with an optional timeout.

        Raises ChannelClosed if the peer is gone, or ChannelTimeout if it doesn't accept the message in time.
        """
        self._refuse_dead()
        try:
            self._connection.settimeout(seconds)
            self._connection.sendall(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
        except TimeoutError:
            raise self._end(ChannelTimeout("the peer did not accept a message in time")) from None
        except OSError as error:
            raise self._end(ChannelClosed(f"the peer has closed the connection: {error}")) from None

    def receive(self, seconds: float | None = None) -> bytes:
        """Wait for a message, with an optional timeout.

        Raises ChannelClosed if the peer is gone, ChannelTimeout if it doesn't send a message in time, or
        ChannelOverrun if the message is too long.
        """
        self._refuse_dead()
        until = None if seconds is None else time.monotonic() + seconds
        length = int.from_bytes(self._exactly(_LENGTH_BYTES, until), "big")
        if length > self._longest:
            raise self._end(
                ChannelOverrun(f"the announced message has {length} bytes, more than {self._longest}")
            )
        return self._exactly(length, until)

    def close(self, why: str = "the channel was closed") -> None:
        """Close the channel and record the reason in `dead`, unless there already is one."""
        self.dead = self.dead or why
        self._connection.close()

    def _exactly(self, count: int, until: float | None) -> bytes:
        received = bytearray()
        while len(received) < count:
            left = None if until is None else until - time.monotonic()
            try:
                if left is not None and left <= 0:
                    raise TimeoutError
                self._connection.settimeout(left)
                # Don't allocate the announced length in advance: the peer may never send that much.
                piece = self._connection.recv(min(count - len(received), 2**20))
            except TimeoutError:
                raise self._end(ChannelTimeout("the peer did not answer in time")) from None
            except OSError as error:
                raise self._end(ChannelClosed(f"the peer has closed the connection: {error}")) from None
            if not piece:
                raise self._end(ChannelClosed("the peer has closed the connection"))
            received += piece
        return bytes(received)

    def _refuse_dead(self) -> None:
        if self.dead:
            raise ChannelClosed(self.dead)

    def _end(self, error: Exception) -> Exception:
        self.close(str(error))
        return error
