"""Files that are either whole or not there, whenever the process is killed."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`, and give it that name once it is whole and on the disk.

    Where the body raises, the temporary file is removed and `path` stays as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _keep_names(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _keep_names(folder: Path) -> None:
    """Have the folder itself on the disk: a power cut must not bring back the file's old self."""
    if hasattr(os, "O_DIRECTORY"):  # Windows has no such handle, and needs none.
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(OSError):  # Some network drives refuse. The file is whole all the same.
                os.fsync(number)
        finally:
            os.close(number)


def atomic_write_text(path: Path, text: str) -> None:
    """Write `text` in UTF-8 to `path`, whole or not at all."""
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))
