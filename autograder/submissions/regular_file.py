"""Read a regular file in a folder that another account can change at the same time."""

import errno
import os
import stat
from contextlib import ExitStack
from pathlib import Path, PurePath

from autograder.submissions.reading import MAX_BYTES, UnreadableError, shown, too_large


def read_file(folder: Path, path: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Read a regular file, without following links: neither the folder nor any part of `path` may be one.

    `path` is relative to `folder`. Raises UnreadableError if it is not a regular file, has more than
    `max_bytes` bytes, or can't be read.
    """
    # A student can replace a part of the path with a link at any time, so each part is opened relative to the
    # folder opened before it, and checked once it is open.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = None
    with ExitStack() as opened:
        for part in (str(folder), *PurePath(path).parts):
            try:
                descriptor = os.open(part, flags, dir_fd=descriptor)
            except OSError as error:
                name = shown(os.path.basename(part))
                if error.errno == errno.ELOOP:
                    raise UnreadableError(f"{name} is a symbolic link, and links are not followed") from None
                raise UnreadableError(f"{name} cannot be read: {error.strerror}") from None
            opened.callback(os.close, descriptor)
        assert descriptor is not None
        about = os.fstat(descriptor)
        if stat.S_ISDIR(about.st_mode):
            raise UnreadableError(f"{shown(path)} is a folder, not a file")
        if not stat.S_ISREG(about.st_mode):
            raise UnreadableError(f"{shown(path)} is not a regular file")
        if about.st_size > max_bytes:
            raise UnreadableError(too_large(about.st_size, max_bytes))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(max_bytes)
