"""A download is either the published file or discarded, and an interrupted download resumes."""

import hashlib
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from course_lib.errors import BadInputError
from course_lib.translation.data.corpora.downloads import ATTEMPTS, CHUNK, download
from course_lib.translation.distributed import DistributedInfo
from tests.translation.real_processes import in_processes
from tests.translation.web_server import Answer, send, send_whole

CONTENT = bytes(index * index % 251 for index in range(100_000))
CHECKSUM = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


def refusal(url: str, path: Path) -> str:
    with pytest.raises(BadInputError) as refused:
        download(url, path, CHECKSUM)
    message = str(refused.value)
    assert "\n" not in message
    return message


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_a_file_comes_and_is_not_asked_for_again(
    tmp_path: Path, server: Callable[[Answer], str], algorithm: str
) -> None:
    asked = []
    url = server(lambda handler, name: (asked.append(name), send(handler, CONTENT))[1]) + "a.gz"
    checksum = f"{algorithm}:{hashlib.new(algorithm, CONTENT).hexdigest()}"
    path = tmp_path / "new" / "a.gz"
    for _ in range(2):
        assert download(url, path, checksum) == path
        assert path.read_bytes() == CONTENT
    assert asked == ["a.gz"]
    assert kept(path.parent) == ["a.gz"]


def test_a_cached_file_that_has_changed_is_downloaded_again(
    tmp_path: Path, server: Callable[[Answer], str]
) -> None:
    (tmp_path / "a").write_bytes(CONTENT[:-1] + b"?")
    download(server(lambda handler, name: send(handler, CONTENT)) + "a", tmp_path / "a", CHECKSUM)
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_one_that_breaks_off_is_resumed_at_once(tmp_path: Path, server: Callable[[Answer], str]) -> None:
    ranges = []

    def answer(handler: BaseHTTPRequestHandler, name: str) -> None:
        ranges.append(handler.headers.get("Range"))
        # More attempts are interrupted than may end without progress, but each of them makes progress.
        send(handler, CONTENT, max_bytes=CHUNK)

    download(server(answer) + "a", tmp_path / "a", CHECKSUM)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert ranges == [None, *(f"bytes={first}-" for first in range(CHUNK, len(CONTENT), CHUNK))]
    assert len(ranges) > ATTEMPTS + 1


def test_what_an_ended_process_had_fetched_is_not_fetched_again(
    tmp_path: Path, server: Callable[[Answer], str]
) -> None:
    ranges = []

    def answer(handler: BaseHTTPRequestHandler, name: str) -> None:
        ranges.append(handler.headers.get("Range"))
        send(handler, CONTENT)

    (tmp_path / "a.part").write_bytes(CONTENT[:70_000])
    download(server(answer) + "a", tmp_path / "a", CHECKSUM)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert ranges == ["bytes=70000-"]
    assert kept(tmp_path) == ["a"]


@pytest.mark.parametrize("part", [CONTENT, CONTENT + b"more", b"of another file"])
def test_a_part_that_does_not_fit_is_started_over(
    tmp_path: Path, server: Callable[[Answer], str], part: bytes
) -> None:
    (tmp_path / "a.part").write_bytes(part)
    download(server(lambda handler, name: send(handler, CONTENT)) + "a", tmp_path / "a", CHECKSUM)
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_a_server_that_knows_no_ranges_sends_all(tmp_path: Path, server: Callable[[Answer], str]) -> None:
    (tmp_path / "a.part").write_bytes(CONTENT[:70_000])
    download(server(lambda handler, name: send_whole(handler, CONTENT)) + "a", tmp_path / "a", CHECKSUM)
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_another_file_is_refused_and_not_kept(tmp_path: Path, server: Callable[[Answer], str]) -> None:
    url = server(lambda handler, name: send(handler, b"something else")) + "a"
    assert refusal(url, tmp_path / "a").startswith(f"{url}: the downloaded file is not the published one")
    assert kept(tmp_path) == []


@pytest.mark.parametrize("status", [404, 403, 503])
def test_a_server_that_refuses_is_quoted(
    tmp_path: Path, server: Callable[[Answer], str], status: int
) -> None:
    asked = []
    url = server(lambda handler, name: (asked.append(name), handler.send_error(status))[1]) + "a"
    assert f"{url}: cannot be downloaded (the server responded {status} " in refusal(url, tmp_path / "a")
    assert len(asked) == 1
    assert kept(tmp_path) == []


def test_a_broken_download_is_abandoned_and_its_part_is_kept(
    tmp_path: Path, server: Callable[[Answer], str]
) -> None:
    up = [CHUNK]
    url = server(lambda handler, name: send(handler, CONTENT, max_bytes=up.pop() if up else 0)) + "a"
    message = refusal(url, tmp_path / "a")
    assert "the connection was lost; the received part is kept, so try again to resume" in message
    assert (tmp_path / "a.part").read_bytes() == CONTENT[:CHUNK]


def test_no_connection_is_said(tmp_path: Path, server: Callable[[Answer], str]) -> None:
    # Nothing listens on port 1 of this machine.
    url = server(lambda handler, name: None).rpartition(":")[0] + ":1/raw/a"
    assert refusal(url, tmp_path / "a") == f"{url}: cannot be downloaded (no connection)"
    assert kept(tmp_path) == []


@pytest.mark.parametrize("url", ["localhost:8000/a", "example.org/a", "http:///a"])
def test_an_address_without_its_scheme_or_host_is_said(tmp_path: Path, url: str) -> None:
    assert refusal(url, tmp_path / "a") == (
        f"{url}: cannot be downloaded (expected an address such as https://example.org/files)"
    )


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, server: Callable[[Answer], str]) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert "cannot write downloads" in refusal("http://127.0.0.1/a", tmp_path / "file" / "a")


def _download(distributed: DistributedInfo, url: str, path: Path) -> bytes:
    return download(url, path, CHECKSUM).read_bytes()


@pytest.mark.slow
def test_processes_that_want_the_same_file_fetch_it_once(
    tmp_path: Path, server: Callable[[Answer], str]
) -> None:
    asked = []

    def answer(handler: BaseHTTPRequestHandler, name: str) -> None:
        asked.append(name)
        time.sleep(0.3)  # Long enough for the other process to arrive.
        send(handler, CONTENT)

    assert in_processes(2, _download, server(answer) + "a", tmp_path / "a") == [CONTENT, CONTENT]
    assert asked == ["a"]
