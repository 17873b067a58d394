"""What a kernel finds in its folder, as a tar file in memory: made once, unpacked for each kernel."""

import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

#: Files beside a notebook that are larger than this in sum are left out. In bytes.
MOST_BESIDE = 64 * 2**20


def pack_files(files: Mapping[str, bytes]) -> int:
    """Give the descriptor of a tar file with these files. The caller closes it."""
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
    """Give all of `course_lib`, by where it lies in a kernel's folder."""
    folder = Path(__file__).resolve().parents[2] / "course_lib"
    return {
        f"course/course_lib/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def beside(folder: Path) -> dict[str, bytes]:
    """Give what lies in a notebook's folder, without notebooks, links and hidden files."""
    found: dict[str, bytes] = {}
    left = MOST_BESIDE
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        links = any(folder.joinpath(*parts[:depth]).is_symlink() for depth in range(1, len(parts) + 1))
        if links or path.suffix == ".ipynb" or any(part.startswith(".") for part in parts):
            continue
        if path.is_file() and path.stat().st_size <= left:
            left -= path.stat().st_size
            found["work/" + "/".join(parts)] = path.read_bytes()
    return found
