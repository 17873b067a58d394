"""Advisory locks, which keep two processes from writing the same file."""

import sys
from typing import IO

if sys.platform != "win32":
    import fcntl


def try_lock(file: IO[bytes] | int) -> bool:
    """Lock an open file or folder. Return True, or False if another open file description holds the lock.

    `file` is a file object or a file descriptor.

    The operating system releases the lock when the file is closed in this process and in all child processes
    that inherited it, even if they are killed. On Windows, and on file systems without locks, nothing is
    locked and the result is True.
    """
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # The file system has no locks. Lustre, for example, may be mounted without them.
    return True
