"""The result store: one file for each job, named after the job's digest.

A file contains two lines of JSON: a header with a checksum and the result's dependencies, and the result. It
is written atomically and never changes afterwards, so that several processes, accounts and machines can share
a store. A reader detects any file that isn't the result of the job that it is named after.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from autograder.judge.job import Job, Result, digest_of
from course_lib.atomic_files import atomic_write

_FORMAT = 1
_SUFFIX = ".jsonl"


class DamagedResultError(ValueError):
    """The error raised if an entry isn't the result of the job it is named after. The message says why."""


class Header(msgspec.Struct, forbid_unknown_fields=True):
    """The first line of an entry."""

    format: int
    digest: str
    """The digest of the job."""
    lesson: str
    depends_on: dict[str, str]
    """Hashes of the parts of the job, as in `Job.depends_on`."""
    seconds: float
    """The time that the job took."""
    sha256: str
    """The checksum of the second line."""


class ResultStore:
    """The results in a folder, which is created when the first result is written.

    If `group_shared` is true, the folder is created so that all accounts in its group can write to it.
    """

    def __init__(self, folder: Path, group_shared: bool = False) -> None:
        self.folder = folder
        self._group_shared = group_shared

    def load(self, job: Job) -> Result | None:
        """Return the result of a job, or None if it isn't in the store.

        Raises DamagedResultError if there is an entry that can't be trusted, and OSError if it can't be read.
        """
        try:
            content = self._path(job.digest).read_bytes()
        except FileNotFoundError:
            return None
        header, body = _parse(content, job.digest)
        try:
            result = Result.from_json(body, header.seconds)
        except ValueError as error:
            raise DamagedResultError(str(error)) from None
        if len(result.outputs) != len(job.cells):
            raise DamagedResultError(f"expected {len(job.cells)} cells, found {len(result.outputs)}")
        return result

    def save(self, job: Job, body: bytes, seconds: float) -> None:
        """Atomically write the result of a job, serialised by `Result.to_json`, and the time that it took.

        Raises OSError if that fails.
        """
        header = Header(
            format=_FORMAT,
            digest=job.digest,
            lesson=job.lesson,
            depends_on=job.depends_on,
            seconds=round(seconds, 3),
            sha256=hashlib.sha256(body).hexdigest(),
        )
        path = self._path(job.digest)
        self._make_folder(path.parent)
        # No fsync: a file emptied by a power failure is detected, and its job is run again.
        with atomic_write(path, sync=False) as file:
            file.write(msgspec.json.encode(header) + b"\n" + body + b"\n")
            with contextlib.suppress(PermissionError):
                os.fchmod(file.fileno(), stat.S_IMODE(path.parent.stat().st_mode) & 0o664)

    def entries(self) -> Iterator[tuple[Path, Header | None]]:
        """Yield each file's path and header. The header is None if the file isn't an intact entry."""
        for path in sorted(self.folder.glob("??/*")) if self.folder.is_dir() else []:
            header = None
            # Killed processes can leave incomplete files, which have a different suffix.
            if path.suffix == _SUFFIX and path.is_file() and not path.is_symlink():
                with contextlib.suppress(ValueError, OSError):
                    found, body = _parse(path.read_bytes(), path.stem)
                    Result.from_json(body, found.seconds)
                    header = found
            yield path, header

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / f"{digest}{_SUFFIX}"

    def _make_folder(self, folder: Path) -> None:
        """Create the store's folder and, inside it, `folder` with the same mode, unless they exist."""
        if not self.folder.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True)
            if self._group_shared:
                with contextlib.suppress(PermissionError):
                    self.folder.chmod(stat.S_IMODE(self.folder.stat().st_mode) | 0o2070)
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)
            with contextlib.suppress(PermissionError):
                folder.chmod(stat.S_IMODE(self.folder.stat().st_mode))


def _parse(content: bytes, digest: str) -> tuple[Header, bytes]:
    first, _, rest = content.partition(b"\n")
    try:
        header = msgspec.json.decode(first, type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise DamagedResultError("its first line is not the header of a result") from None
    if header.format != _FORMAT:
        raise DamagedResultError(f"it has format {header.format}, but this version reads format {_FORMAT}")
    if header.digest != digest or digest_of(header.lesson, header.depends_on) != digest:
        raise DamagedResultError("it is the result of another job")
    body = rest.removesuffix(b"\n")
    if not rest.endswith(b"\n") or hashlib.sha256(body).hexdigest() != header.sha256:
        raise DamagedResultError("its checksum doesn't match: it is incomplete, or was changed")
    return header, body
