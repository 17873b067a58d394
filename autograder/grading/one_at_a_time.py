"""One `nbgrader autograde` at a time in a course: work in progress looks like what a killed run has left."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException

#: In the folder of nbgrader_config.py. The system lets go of it when its process ends, however that ends.
LOCK = ".autograding"


def claim(folder: Path) -> Callable[[], None]:
    """Claim the course whose nbgrader_config.py lies in a folder, and give what lets go of it again.

    Raises NbGraderException where another run has it.
    """
    lock = (folder / LOCK).open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        whose = lock.read().strip() or "another process"
        lock.close()
        raise NbGraderException(
            f"{whose} is autograding in this course, and two at a time would take each other's work for what "
            "a killed run has left; wait until it is done, or end it"
        ) from None
    except OSError:
        return lock.close  # a file system without locks: there nobody can be refused
    lock.truncate(0)
    lock.write(f"process {os.getpid()}\n")
    lock.flush()
    return lock.close


def let_go_afterwards(converter: Autograde, let_go: Callable[[], None]) -> None:
    """Let go when the run that is about to begin has ended. nbgrader has no hook there, only a method."""
    convert = converter.convert_notebooks

    def convert_and_let_go() -> None:
        try:
            convert()
        finally:
            let_go()

    converter.convert_notebooks = convert_and_let_go  # type: ignore[method-assign]
