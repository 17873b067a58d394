"""The extractor of `nbgrader zip_collect`: it unpacks downloads and the students' archives inside them.

nbgrader's own extractor stops at the first archive or name that it can't handle, and has no limits.
"""

import errno
import gzip
import hashlib
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from stat import S_ISLNK
from typing import IO, Any, Protocol

from nbgrader.plugins import ExtractorPlugin

from autograder.submissions.downloaded_files import interpretations
from autograder.submissions.reading import shown

#: The maximum nesting depth of archives: the download, a student's archive, and an archive inside that.
_MAX_NESTING = 3

#: The maximum number of files in a student's archive, and the maximum depth of folders.
_MAX_FILES, _MAX_FOLDERS = 1_000, 30

#: The maximum length of a file's name on Linux, in bytes.
_MAX_NAME = 255


class _Reader(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _TooLargeError(Exception):
    """The error raised if a student's archive is too large. The rest of the archive is not read."""


@dataclass
class _Budget:
    """The number of further bytes and files allowed in a student's archive, including nested archives."""

    bytes: int
    files: int = _MAX_FILES

    def use(self, size: int = 0, files: int = 0) -> None:
        """Subtract bytes and files from the budget. Raises _TooLargeError if it is exceeded."""
        self.bytes -= size
        self.files -= files
        if self.bytes < 0 or self.files < 0:
            too_many = f"it contains more than {_MAX_FILES} files"
            raise _TooLargeError("its unpacked content is too large" if self.bytes < 0 else too_many)


@dataclass
class _LimitedReader:
    """A decompressed stream with a limit on its length, because tarfile reads headers of any length."""

    stream: _Reader
    budget: _Budget

    def read(self, size: int = -1, /) -> bytes:
        """Read from the stream. Raises _TooLargeError if more than the limit has been read in total."""
        content = self.stream.read(size)
        self.budget.use(len(content))
        return content


class DownloadExtractor(ExtractorPlugin):
    """An extractor that unpacks every file it can, and reports the other files and archives by name.

    It writes only regular files, and only inside the folder for extracted files. Students' archives are
    limited in size, number of files and nesting depth.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.left_out = 0
        """The number of archives and files that were not unpacked."""
        self._names: dict[Path, str] = {}
        """The original names of files and folders whose names were shortened, keyed by path."""

    def extract(self, archive_path: str, extracted_path: str) -> None:
        """Unpack all archives in a folder into a target folder, and copy all other files there.

        The command fails if the target folder can't be written, or if archives or files were left out and no
        file was unpacked or copied.
        """
        source, self._folder = Path(archive_path), Path(extracted_path)
        written = 0
        try:
            for path in sorted(source.rglob("*")):
                target = self._folder / path.relative_to(source)
                if path.is_file() and path.suffix.lower() in self.zip_ext:
                    # If the instructor has already unpacked the download, this may be a student's archive.
                    files = interpretations(path, path.relative_to(source).parts)
                    is_students = any(map(self.parent.collector_plugin_inst.students.find, files))
                    written += self._unpack(path, target, 2 if is_students else 1)
                elif path.is_file():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, target)
                    written += 1
        except OSError as error:
            self.parent.fail(
                f"{self._folder} cannot be written ({error.strerror}), so nothing was collected. "
                "Run this command again with --force"
            )
        if self.left_out and not written:
            self.parent.fail("No file could be unpacked, so nothing was collected")

    def original_parts(self, folder: Path, path: Path) -> tuple[str, ...]:
        """Return the parts of a path relative to `folder`, with the original names of shortened parts."""
        parts = path.relative_to(folder).parts
        paths = (folder.joinpath(*parts[: depth + 1]) for depth in range(len(parts)))
        return tuple(self._names.get(each, each.name) for each in paths)

    def _unpack(self, archive: Path, path: Path, nesting: int, budget: _Budget | None = None) -> int:
        """Unpack an archive and the archives inside it, and return the number of files that were written.

        The files are written to a folder whose path is `path` without its suffix. `nesting` is the depth of
        this archive: 1 is the download itself, which may be of any size, and 2 a student's archive. `budget`
        is the remaining budget of the student's archive that contains this one, if any. Raises OSError if the
        disk is full.
        """
        folder = path.with_name(path.stem.removesuffix(".tar") or path.name)
        if path in self._names:
            self._names[folder] = Path(self._names[path]).stem.removesuffix(".tar")
        max_bytes = self.parent.coursedir.max_file_size * 1000
        if nesting > 1 and budget is None:
            budget = _Budget(max_bytes)
        written: list[Path] = []
        with self._reporting(path):
            for name, open_member in _members(archive, None if budget is None else budget.bytes):
                with self._reporting(folder, name):
                    target = self._target(folder, name)
                    if budget is not None:
                        budget.use(files=1)
                    _write(open_member(), target, max_bytes, budget)
                    written.append(target)
        count = len(written)
        for inner in written:
            hidden = any(part.startswith((".", "__MACOSX")) for part in inner.relative_to(folder).parts)
            if inner.suffix.lower() not in self.zip_ext or hidden:
                continue
            if nesting < _MAX_NESTING:
                count += self._unpack(inner, inner, nesting + 1, budget)
            else:
                self._report(inner, f"archives may be nested at most {_MAX_NESTING} deep")
        return count

    def _target(self, folder: Path, name: str) -> Path:
        """Return the path for a member of an archive. Raises ValueError if it is unsafe or too deep."""
        parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
        if name.startswith(("/", "\\")) or ".." in parts or not parts:
            raise ValueError("its path leads out of the archive")
        if len(parts) > _MAX_FOLDERS:
            raise ValueError(f"its folders are nested more than {_MAX_FOLDERS} deep")
        for part in parts:
            folder /= _shortened(part)
            if folder.name != part:
                self._names[folder] = part
        return folder

    @contextmanager
    def _reporting(self, path: Path, member: str = "") -> Iterator[None]:
        """Log a warning if the block fails to unpack the archive or folder at `path`, or its `member`.

        The error is suppressed, unless the disk or quota is full, or the archive turns out to be too large
        while one of its members is unpacked.
        """
        try:
            yield
        except Exception as error:  # A damaged archive can raise many kinds of exceptions.
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            if isinstance(error, _TooLargeError) and member:
                raise
            self._report(path, str(error) or type(error).__name__, member)

    def _report(self, path: Path, reason: str, member: str = "") -> None:
        self.left_out += 1
        parts = (*self.original_parts(self._folder, path), *filter(None, [member]))
        self.log.warning(
            "%s was not unpacked: %s. If it is needed, put it into the folder of the archive by hand, keep "
            "the part of its name that identifies the student, and run this command again with --force.",
            "/".join(map(shown, parts)),
            reason,
        )


def _members(path: Path, max_bytes: int | None) -> Iterator[tuple[str, Callable[[], _Reader]]]:
    """Yield the name of each file in an archive, and a function that opens it.

    The function must be called before the next file is requested. `max_bytes` is the maximum length of a tar
    archive after decompression, or None for no limit.
    """
    if path.suffix.lower() == ".zip" or zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    yield info.filename, partial(_open_zipped, archive, info)
        return
    # Read the archive as a stream, although a stream can't be rewound: reading all of it before extracting
    # anything would make decompression bombs possible.
    with path.open("rb") if path.suffix.lower() == ".tar" else gzip.open(path) as stream:
        limited = stream if max_bytes is None else _LimitedReader(stream, _Budget(max_bytes))
        with tarfile.open(fileobj=limited, mode="r|") as tar:  # type: ignore[call-overload]
            for member in tar:
                if not member.isdir():
                    yield member.name, partial(_open_tarred, tar, member)


def _open_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if S_ISLNK(info.external_attr >> 16):
        raise ValueError("it is a symbolic link")
    return archive.open(info)


def _open_tarred(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member) if member.isreg() else None
    if content is None:
        raise ValueError("it is a link or a device, not a file")
    return content


def _write(content: _Reader, target: Path, max_bytes: int, budget: _Budget | None) -> None:
    """Write the content of a member to a new file. If that fails, delete the file.

    Raises ValueError if the file exists or is too large, and _TooLargeError if the budget is exceeded.
    """
    if target.exists():
        raise ValueError("another file has the same path")
    target.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    try:
        with target.open("xb") as file:
            while block := content.read(1 << 20):
                size += len(block)
                if size > max_bytes:
                    raise ValueError(f"it is larger than {max_bytes / 1e6:g} MB")
                if budget is not None:
                    budget.use(len(block))
                file.write(block)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _shortened(name: str) -> str:
    """Return a name, shortened if it is too long for Linux. A hash keeps shortened names distinct."""
    encoded = name.encode(errors="surrogateescape")
    if len(encoded) <= _MAX_NAME:
        return name
    suffix = Path(name).suffix if len(Path(name).suffix.encode(errors="surrogateescape")) <= 20 else ""
    ending = f"~{hashlib.sha256(encoded).hexdigest()[:12]}{suffix}"
    return encoded[: _MAX_NAME - len(ending.encode())].decode(errors="ignore") + ending
