"""Atomic writes: a file is either replaced completely or left unchanged, even if the process is killed."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(path: Path, sync: bool = True) -> Iterator[BinaryIO]:
    """Yield a temporary file next to `path`. After the block, flush it to disk and rename it to `path`.

    If the block raises an exception, the temporary file is deleted and `path` is unchanged. Without `sync`,
    the file isn't flushed, so a power failure may leave it empty.
    """
    # The random suffix is needed because other threads, and processes with the same id in other containers,
    # may be writing the same file.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if sync:
            _sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):  # Report the original error, not a failed deletion.
            temporary.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Flush a folder to disk if the system supports it, so that a power failure cannot undo a rename."""
    if hasattr(os, "O_DIRECTORY"):  # Windows can't open folders, and needs no such flush.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(OSError):  # Not every network drive can flush a folder.
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def atomic_write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in UTF-8, atomically."""
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))
