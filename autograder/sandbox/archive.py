"""Pack the files for kernels into a tar file in memory, which each kernel unpacks into its own folder."""

import io
import os
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from autograder.submissions.reading import UnreadableError
from autograder.submissions.regular_file import read_file

#: The maximum total size of the files next to a notebook, in bytes. Files beyond it are skipped.
MAX_NEIGHBOR_BYTES = 64 * 2**20


def pack_files(files: Mapping[str, bytes]) -> int:
    """Write files to a tar file in memory. Return its file descriptor, which the caller must close.

    `files` maps paths to contents.
    """
    descriptor = os.memfd_create("kernel")
    with (
        os.fdopen(os.dup(descriptor), "wb") as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return descriptor


def whole_course() -> dict[str, bytes]:
    """Return the contents of all files of `course_lib`, keyed by their paths in a kernel's folder.

    Compiled bytecode is left out.
    """
    folder = Path(__file__).resolve().parents[2] / "course_lib"
    return {
        f"course/course_lib/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def neighbor_files(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files in a notebook's folder, keyed by relative path.

    Only regular files that are readable, aren't hidden and aren't notebooks are returned. A file that would
    bring the total size above MAX_NEIGHBOR_BYTES is skipped. Links are not followed: if `folder` itself is a
    link, the result is empty.
    """
    found: dict[str, bytes] = {}
    left = MAX_NEIGHBOR_BYTES
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix != ".ipynb" and not any(part.startswith(".") for part in name.split("/")):
            with suppress(UnreadableError):
                found[name] = read_file(folder, name, left)
                left -= len(found[name])
    return found
