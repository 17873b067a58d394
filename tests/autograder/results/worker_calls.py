"""Functions that worker processes call. Each worker imports this module, so it imports little itself."""

import os
import time
from pathlib import Path


def value_or_death(value: int) -> int:
    """Return a value, or end the process if it is negative."""
    if value < 0:
        os._exit(9)
    time.sleep(0.05)
    return value


def nothing() -> None:
    """Initialize a worker without a sandbox."""


def fail() -> None:
    """Fail to initialize a worker."""
    raise RuntimeError("bubblewrap has no permission")


def die() -> None:
    """End a worker that is being initialized."""
    os._exit(3)


def succeed_if_there_is(file: Path) -> None:
    """Initialize a worker if a file exists."""
    file.read_bytes()
