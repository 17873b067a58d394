"""Files of tensors with a checksum, so that damage is always detected.

Such a file is the output of `torch.save`, followed by one line with the SHA-256 of everything before it.
`torch.load` can also read it, but would not detect a flipped bit in a tensor.
"""

import hashlib
import io
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

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
    # Let torch write to memory, although that takes as much memory as the checkpoint: its writer, in C++,
    # would turn an OSError of the file into a different exception.
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getbuffer()
    with atomic_write(path) as file:
        file.write(content)
        file.write(_PREFIX + hashlib.sha256(content).hexdigest().encode())


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
