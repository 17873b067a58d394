"""Resumable downloads of files with known checksums."""

import hashlib
import os
import time
from pathlib import Path

import requests
from filelock import FileLock
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from course_lib.errors import BadInputError

TIMEOUT_SECONDS = 30
#: The number of consecutive attempts without progress after which a download fails. A later call resumes it.
ATTEMPTS = 4
#: The pause in seconds after the first attempt without progress. It grows by the same amount
#: after each further one.
PAUSE = 0.5
#: Bytes written at a time. If the connection breaks, an incomplete chunk is lost.
CHUNK = 2**14
_BAD_ADDRESS = (
    requests.exceptions.MissingSchema,
    requests.exceptions.InvalidSchema,
    requests.exceptions.InvalidURL,
)


def has_checksum(path: Path, checksum: str) -> bool:
    """Return whether a file has this checksum, written as "sha256:..." or "md5:..."."""
    algorithm, _, digest = checksum.partition(":")
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest() == digest


def download(url: str, path: Path, checksum: str) -> Path:
    """Download `url` to `path`, unless `path` already has this checksum. Return the path.

    If the connection breaks, the received part is kept as `NAME.part`, and the next attempt, in this process
    or a later one, requests the rest. If several processes download the same file, the others wait for the
    first one. Raises BadInputError if the download fails, if the downloaded file has a different checksum, or
    if it can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f"{path.name}.lock")):
            if not (path.is_file() and has_checksum(path, checksum)):
                _fetch(url, path, checksum)
    except OSError as error:
        if isinstance(error, requests.RequestException):
            raise BadInputError(f"{url}: cannot be downloaded ({_reason(error)})") from None
        raise BadInputError(
            f"{path.parent}: cannot write downloads ({error.strerror}). Download the files into another "
            "folder with `course fetch`, and set COURSE_DATA to it."
        ) from None
    return path


def _fetch(url: str, path: Path, checksum: str) -> None:
    part = path.with_name(f"{path.name}.part")
    resumed = part.is_file()
    _fetch_part(url, part)
    if not has_checksum(part, checksum) and resumed:
        # A part left by an earlier attempt may belong to another file, so start from scratch.
        part.unlink()
        _fetch_part(url, part)
    if not has_checksum(part, checksum):
        part.unlink()
        raise BadInputError(
            f"{url}: the downloaded file is not the published one (its checksum differs), so it was "
            "deleted; try again"
        )
    os.replace(part, path)


def _fetch_part(url: str, part: Path) -> None:
    failures = 0
    while True:
        before = _size(part)
        try:
            return _fetch_rest(url, part)
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError):
            failures = 0 if _size(part) > before else failures + 1
            # Give up immediately if there is no part, because then no attempt has reached the server.
            if failures == ATTEMPTS or not part.is_file():
                raise
            time.sleep(PAUSE * failures)


def _fetch_rest(url: str, part: Path) -> None:
    """Request the rest of a partial file, or all of it if the server doesn't support ranges."""
    have = _size(part)
    # Without "identity", the length could count the bytes of a compressed response.
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as answer:
        if have and answer.status_code == requests.codes.requested_range_not_satisfiable:
            return  # The part is complete or too long. The caller verifies the checksum.
        answer.raise_for_status()
        resumes = answer.status_code == requests.codes.partial_content
        with part.open("ab" if resumes else "wb") as file, _progress(part) as progress:
            length = int(answer.headers.get("Content-Length", 0))
            task = progress.add_task("", total=have * resumes + length or None, completed=have * resumes)
            for chunk in answer.iter_content(CHUNK):
                file.write(chunk)
                progress.advance(task, len(chunk))
            os.fsync(file.fileno())


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _progress(part: Path) -> Progress:
    console = Console(stderr=True)
    name = TextColumn(part.name.removesuffix(".part"))
    columns = (name, BarColumn(), DownloadColumn(), TransferSpeedColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


def _reason(error: requests.RequestException) -> str:
    if error.response is not None:
        return f"the server responded {error.response.status_code} {error.response.reason}"
    if isinstance(error, _BAD_ADDRESS):
        return "expected an address such as https://example.org/files"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection was lost; the received part is kept, so try again to resume"
    if isinstance(error, requests.Timeout):
        return f"no response in {TIMEOUT_SECONDS} seconds"
    return "no connection"
