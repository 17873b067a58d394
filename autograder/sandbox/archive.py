"""Pack the files for kernels into a tar file in memory, which each kernel unpacks into its own folder."""

import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

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

    Notebooks, symbolic links and hidden files are skipped, and so is any file that would bring the total size
    above MAX_NEIGHBOR_BYTES.
    """
    found: dict[str, bytes] = {}
    left = MAX_NEIGHBOR_BYTES
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        links = any(folder.joinpath(*parts[:depth]).is_symlink() for depth in range(1, len(parts) + 1))
        if links or path.suffix == ".ipynb" or any(part.startswith(".") for part in parts):
            continue
        if path.is_file() and path.stat().st_size <= left:
            left -= path.stat().st_size
            found["/".join(parts)] = path.read_bytes()
    return found
