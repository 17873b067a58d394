"""Free ports for the servers that tests start."""

import random
import socket
from contextlib import ExitStack

#: Ports below the ephemeral ones (from 32768, on a Mac from 49152), which the system may assign to another
#: process before the test uses them, and below those of the SLURM scripts.
_NOBODY_S = range(10_000, 20_000)


def free_ports(count: int) -> list[int]:
    """Return this many ports of 127.0.0.1 on which nothing listens."""
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
