"""Free ports for the servers that tests start."""

import random
import socket
from contextlib import ExitStack

#: Ports below those that the SLURM scripts use and below the ephemeral range (from 32768, on macOS from
#: 49152), whose ports the system may assign to another process before the test uses them.
_NOBODY_S = range(10_000, 20_000)


def free_ports(count: int) -> list[int]:
    """Return `count` free ports on 127.0.0.1."""
    chosen: list[int] = []
    with ExitStack() as stack:
        for port in random.SystemRandom().sample(_NOBODY_S, len(_NOBODY_S)):
            if len(chosen) == count:
                break
            one = stack.enter_context(socket.socket())
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            chosen.append(port)
    return chosen
