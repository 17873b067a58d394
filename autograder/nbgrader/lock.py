"""One `nbgrader autograde` at a time in a course: work in progress looks like what a killed run has left."""

import fcntl
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException


def claim(folder: Path) -> Callable[[], None]:
    """Claim the course whose nbgrader_config.py lies in a folder, and give what lets go of it again.

    The folder itself is locked, so nothing is left behind; the system lets go of it when the process ends,
    however that ends. Raises NbGraderException where another run has it.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise NbGraderException(
            f"another process is autograding in {folder}, and two at a time would take each other's work for "
            "what a killed run has left; wait until it is done, or end it"
        ) from None
    except OSError:
        pass  # a file system without locks: there nobody can be refused
    return partial(os.close, lock)


def let_go_afterwards(converter: Autograde, let_go: Callable[[], None]) -> None:
    """Let go when the run that is about to begin has ended. nbgrader has no hook there, only a method."""

    def convert_and_let_go() -> None:
        try:
            type(converter).convert_notebooks(converter)
        finally:
            let_go()

    converter.convert_notebooks = convert_and_let_go  # type: ignore[method-assign]
