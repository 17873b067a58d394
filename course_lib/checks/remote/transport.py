"""Messages over a socket: each is its length in 8 bytes, the highest first, and then so many bytes."""

import socket
import time

#: The longest message that is accepted, in bytes: a little more than `serialization` writes.
LONGEST = 80 * 2**20

_LENGTH_BYTES = 8


class ChannelClosed(ConnectionError):  # noqa: N818
    """The other side is gone."""


class ChannelTimeout(TimeoutError):  # noqa: N818
    """The other side did not answer in time."""


class ChannelOverrun(ValueError):  # noqa: N818
    """The other side claims a message that is too long."""


class Channel:
    """Sends and receives over a connected socket. The first thing that goes wrong ends it."""

    def __init__(self, connection: socket.socket, longest: int = LONGEST) -> None:
        self._connection = connection
        self._longest = longest
        self.dead = ""
        """Why nothing more can be sent or received; empty while all is well."""

    def send(self, message: bytes, seconds: float | None = None) -> None:
        """Send a message, within some seconds if they are given.

        Raises ChannelClosed where the other side is gone, ChannelTimeout where it does not take the message.
        """
        self._refuse_dead()
        try:
            self._connection.settimeout(seconds)
            self._connection.sendall(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
        except TimeoutError:
            raise self._end(ChannelTimeout("the other side did not take a message in time")) from None
        except OSError as error:
            raise self._end(ChannelClosed(f"the other side is gone: {error}")) from None

    def receive(self, seconds: float | None = None) -> bytes:
        """Wait for a message, for so many seconds at most if they are given.

        Raises ChannelClosed, ChannelTimeout, and ChannelOverrun for a message that is too long.
        """
        self._refuse_dead()
        until = None if seconds is None else time.monotonic() + seconds
        length = int.from_bytes(self._exactly(_LENGTH_BYTES, until), "big")
        if length > self._longest:
            raise self._end(
                ChannelOverrun(f"a message may have {self._longest} bytes, and claims to have {length}")
            )
        return self._exactly(length, until)

    def close(self, why: str = "it was closed") -> None:
        """Close it, and say why in `dead`, where nothing is said there yet."""
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
                # What is not there yet gets no memory: the length is only a claim.
                piece = self._connection.recv(min(count - len(received), 2**20))
            except TimeoutError:
                raise self._end(ChannelTimeout("the other side did not answer in time")) from None
            except OSError as error:
                raise self._end(ChannelClosed(f"the other side is gone: {error}")) from None
            if not piece:
                raise self._end(ChannelClosed("the other side is gone"))
            received += piece
        return bytes(received)

    def _refuse_dead(self) -> None:
        if self.dead:
            raise ChannelClosed(self.dead)

    def _end(self, error: Exception) -> Exception:
        self.close(str(error))
        return error
