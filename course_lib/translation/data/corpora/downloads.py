"""Files from the web that are the published ones, or are not kept: resumed where they broke off."""

import hashlib
import os
import time
from pathlib import Path

import requests
from filelock import FileLock
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from course_lib.errors import BadInputError

SECONDS_TO_ANSWER = 30
#: So many attempts in a row may bring nothing new before a download is given up; a later start goes on.
ATTEMPTS = 4
#: Seconds, times the attempts in vain, before the next one.
PAUSE = 0.5
#: Bytes taken at a time. Where the connection breaks, those that have come of a piece are lost.
PIECE = 2**14


def has_checksum(path: Path, checksum: str) -> bool:
    """Say whether a file is the one with this checksum, written "sha256:..." or "md5:..."."""
    algorithm, _, digest = checksum.partition(":")
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest() == digest


def download(url: str, path: Path, checksum: str) -> Path:
    """Make sure that `path` is the file at `url` with this checksum; give the path.

    A file that is there already is only checked. Of a download that breaks off, what came stays in
    `NAME.part`, and the next attempt, in this process or a later one, asks for the rest. Processes that want
    the same file at once wait for the first one. Raises BadInputError where the file can't be had.
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
            f"{path.parent}: downloads cannot be kept there ({error.strerror}); set data.cache"
        ) from None
    return path


def _fetch(url: str, path: Path, checksum: str) -> None:
    part = path.with_name(f"{path.name}.part")
    resumed = part.is_file()
    _fetch_part(url, part)
    if not has_checksum(part, checksum) and resumed:
        # What an earlier attempt had left may have been of another file: once more, from the start.
        part.unlink()
        _fetch_part(url, part)
    if not has_checksum(part, checksum):
        part.unlink()
        raise BadInputError(
            f"{url}: what came is not the published file (its checksum is another), so it was not kept; "
            "try again"
        )
    os.replace(part, path)


def _fetch_part(url: str, part: Path) -> None:
    in_vain = 0
    while True:
        before = _size(part)
        try:
            return _fetch_rest(url, part)
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError):
            in_vain = 0 if _size(part) > before else in_vain + 1
            # Where nobody answers at all, nothing ever came.
            if in_vain == ATTEMPTS or not part.is_file():
                raise
            time.sleep(PAUSE * in_vain)


def _fetch_rest(url: str, part: Path) -> None:
    """Ask for what is missing of the part, and add it."""
    have = _size(part)
    # Identity: a length counts the file's own bytes, and not those of a compressed answer.
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    with requests.get(url, headers=headers, stream=True, timeout=SECONDS_TO_ANSWER) as answer:
        if have and answer.status_code == requests.codes.requested_range_not_satisfiable:
            return  # All of it is there, or more: the checksum will tell.
        answer.raise_for_status()
        # A server that knows no ranges sends all of it.
        resumes = answer.status_code == requests.codes.partial_content
        with part.open("ab" if resumes else "wb") as file, _progress(part) as progress:
            length = int(answer.headers.get("Content-Length", 0))
            task = progress.add_task("", total=have * resumes + length or None, completed=have * resumes)
            for piece in answer.iter_content(PIECE):
                file.write(piece)
                progress.advance(task, len(piece))
            os.fsync(file.fileno())


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _progress(part: Path) -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn(part.name.removesuffix(".part")),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


def _reason(error: requests.RequestException) -> str:
    if error.response is not None:
        return f"the server answers {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke off; what came is kept, and the next start goes on from there"
    if isinstance(error, requests.Timeout):
        return f"no answer in {SECONDS_TO_ANSWER} seconds"
    return "no connection"
