"""Files of tensors that are whole, or known to be damaged.

Such a file is what `torch.save` writes, and after it one line with the SHA-256 of all before. `torch.load`
reads it as any other, and checks none of the bytes in its tensors: the seal is what tells a flipped bit.
"""

import hashlib
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch

from course_lib.atomic_files import atomic_write

_SEAL = b"\nsha256:"
_SEAL_BYTES = len(_SEAL) + 64
_CHUNK = 1 << 22


class DamagedFileError(Exception):
    """A file that does not hold what was written to it, or that something else has written."""


def write_sealed(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values, whole or not at all. Raises OSError, as for a disk that is full."""
    with atomic_write(path) as file:
        sealing = _SealingWriter(file)
        torch.save(state, cast(IO[bytes], sealing))
        sealing.finish()


def read_sealed(path: Path, mapped: bool = False) -> dict[str, Any]:
    """Read what `write_sealed` wrote, on the CPU: only tensors and plain values are ever loaded, never code.

    `mapped` leaves the tensors in the file, to be read from there when they are used. Raises
    DamagedFileError where the seal is missing or broken, and OSError where the file cannot be read.
    """
    with path.open("rb") as file:
        _check_seal(file)
        file.seek(0)
        try:
            state = torch.load(path if mapped else file, map_location="cpu", weights_only=True, mmap=mapped)
        except Exception as error:
            if isinstance(error, MemoryError) or "allocate memory" in str(error):
                raise  # The file is whole; there is no room for it.
            # What is sealed but no such file can make the loader raise nearly anything else.
            raise DamagedFileError from None
    if not isinstance(state, dict):
        raise DamagedFileError
    return state


def _check_seal(file: BinaryIO) -> None:
    remaining = file.seek(0, 2) - _SEAL_BYTES
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
    if file.read() != _SEAL + digest.hexdigest().encode():
        raise DamagedFileError


class _SealingWriter:
    """A file for `torch.save`, which hashes what passes and keeps errors for later.

    An exception must not pass through torch's writer, which is C++: it would come out as another one, and its
    attempt to end the file would raise once more.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._error: OSError | None = None

    def write(self, data: Any) -> int:
        part = memoryview(data).cast("B")
        if self._error is None:
            try:
                self._file.write(part)
                self._digest.update(part)
            except OSError as error:
                self._error = error
        return len(part)

    def flush(self) -> None:
        """Leave it to the end, which writes everything to the disk."""

    def finish(self) -> None:
        if self._error is not None:
            raise self._error
        self._file.write(_SEAL + self._digest.hexdigest().encode())
