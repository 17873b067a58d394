"""A lock that allows one command at a time to grade, release or write feedback in a course."""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nbgrader.converters.base import NbGraderException


@contextmanager
def course_lock(folder: Path, log: logging.Logger) -> Iterator[None]:
    """Lock a course's grading folder, which must exist, while the block runs.

    Raises NbGraderException if another process holds the lock. If the folder can't be locked for another
    reason, a warning is logged and the block runs without the lock.

    The folder itself is locked, so no lock file is left behind, and graders with different Unix accounts
    exclude each other. The operating system releases the lock when the process ends, even if it is killed.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NbGraderException(
                f"another nbgrader command is working in {folder}. Wait until it has finished, or end it."
            ) from None
        except OSError as error:
            log.warning("%s cannot be locked (%s). Make sure that nobody else is grading.", folder, error)
        yield
    finally:
        os.close(descriptor)
