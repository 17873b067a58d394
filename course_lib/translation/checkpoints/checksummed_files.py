"""Files of tensors with a checksum, so that damage is always detected.

Such a file is the output of `torch.save`, followed by one line with the SHA-256 of everything before it.
`torch.load` can also read it, but would not detect a flipped bit in a tensor.
"""

import hashlib
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch

from course_lib.atomic_files import atomic_write

_PREFIX = b"\nsha256:"
_TRAILER_BYTES = len(_PREFIX) + 64
_CHUNK = 1 << 22


class DamagedFileError(Exception):
    """The error raised if a file is damaged or was not written by `save_checksummed`."""


def save_checksummed(path: Path, state: Mapping[str, object]) -> None:
    """Write tensors and plain values with a checksum, atomically.

    Raises OSError, for example if the disk is full.
    """
    with atomic_write(path) as file:
        writer = _HashingWriter(file)
        torch.save(state, cast(IO[bytes], writer))
        writer.finish()


def load_checksummed(path: Path, mapped: bool = False) -> dict[str, Any]:
    """Load a file written by `save_checksummed`, with all tensors on the CPU. Code in the file is never run.

    With `mapped`, tensors are memory-mapped: they are read from the file when they are used.

    Raises:
        DamagedFileError: if the checksum is missing or wrong, or `save_checksummed` didn't write the file.
        OSError: if the file is missing or cannot be read.
    """
    with path.open("rb") as file:
        _check(file)
        file.seek(0)
        try:
            state = torch.load(path if mapped else file, map_location="cpu", weights_only=True, mmap=mapped)
        except pickle.UnpicklingError:
            # Other exceptions, such as running out of memory, don't mean that the file is damaged.
            raise DamagedFileError from None
    if not isinstance(state, dict):
        raise DamagedFileError
    return state


def _check(file: BinaryIO) -> None:
    remaining = file.seek(0, 2) - _TRAILER_BYTES
    if remaining < 0:
        raise DamagedFileError
    file.seek(0)
    digest = hashlib.sha256()
    while remaining:
        chunk = file.read(min(_CHUNK, remaining))
        digest.update(chunk)
        remaining -= len(chunk)
        if not chunk:
            raise DamagedFileError
    if file.read() != _PREFIX + digest.hexdigest().encode() or not zipfile.is_zipfile(file):
        raise DamagedFileError


class _HashingWriter:
    """A file for `torch.save` that hashes everything written to it and raises errors only at the end.

    An exception must not pass through torch's writer, which is written in C++: it would turn into a different
    exception, and the writer would raise again when it tries to finish the file.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._error: OSError | None = None

    def write(self, data: bytes | memoryview) -> int:
        part = memoryview(data).cast("B")
        if self._error is None:
            try:
                self._file.write(part)
                self._digest.update(part)
            except OSError as error:
                self._error = error
        return len(part)

    def flush(self) -> None:
        """Do nothing: `atomic_write` flushes the file at the end."""

    def finish(self) -> None:
        if self._error is not None:
            raise self._error
        self._file.write(_PREFIX + self._digest.hexdigest().encode())
