"""Multi30k comes from a mirror folder or a server, is the published one, or is refused."""

import gzip
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from course_lib.translation.config import DataConfig
from course_lib.translation.corpora import load_corpus
from course_lib.translation.errors import BadInputError
from course_lib.translation.multi30k import SHA256, multi30k

Answer = Callable[[BaseHTTPRequestHandler, str], None]


@pytest.fixture
def published() -> Path:
    """The folder with the published files."""
    if "COURSE_DATA" not in os.environ:
        pytest.skip("COURSE_DATA names no mirror folder, so the published files of Multi30k are not at hand")
    mirror = Path(os.environ["COURSE_DATA"])
    return mirror / "multi30k" if (mirror / "multi30k").is_dir() else mirror


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], str]]:
    """Start a web server that answers as told, and give its address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    servers = []

    def serve(answer: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self, self.path.rpartition("/")[2])

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        started = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=started.serve_forever, daemon=True).start()
        servers.append(started)
        return f"http://127.0.0.1:{started.server_port}/raw/"

    yield serve
    for started in servers:
        started.shutdown()
        started.server_close()


def send(handler: BaseHTTPRequestHandler, content: bytes, length: int | None = None) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content) if length is None else length))
    handler.end_headers()
    handler.wfile.write(content)


def refusal(**arguments: object) -> str:
    with pytest.raises(BadInputError) as refused:
        multi30k(**arguments)  # type: ignore[arg-type]
    message = str(refused.value)
    assert "\n" not in message
    return message


def nothing_kept(cache: Path) -> bool:
    return not [path for path in cache.rglob("*") if path.is_file()]


@pytest.mark.parametrize("inside", [True, False])
def test_a_mirror_is_read_from_itself_or_its_subfolder(published: Path, tmp_path: Path, inside: bool) -> None:
    mirror = tmp_path / "mirror"
    shutil.copytree(published, mirror / "multi30k" if inside else mirror)
    corpus = multi30k(mirror)
    assert [len(corpus.train), len(corpus.validation), len(corpus.test)] == [29000, 1014, 1000]
    assert corpus.train.german[0] == "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche."
    assert corpus.train.english[0] == "Two young, White males are outside near many bushes."


def test_the_variable_names_the_mirror(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_DATA", str(published))
    assert len(load_corpus(DataConfig(corpus="multi30k")).test) == 1000


def test_the_config_names_the_mirror_before_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "variable"))
    with pytest.raises(BadInputError, match=r"mirror folder .*config or its subfolder"):
        load_corpus(DataConfig(corpus="multi30k", mirror=str(tmp_path / "config")))


def test_a_missing_file_of_a_mirror_is_named(tmp_path: Path) -> None:
    message = refusal(mirror=tmp_path)
    assert message.startswith(
        f"train.de.gz: expected it in the mirror folder {tmp_path} or its subfolder multi30k"
    )


def test_a_changed_file_of_a_mirror_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.de.gz").write_bytes(gzip.compress(b"eins\n"))
    assert f"{tmp_path / 'train.de.gz'}: not the published file" in refusal(mirror=tmp_path)


def test_a_download_is_kept_and_not_repeated(
    published: Path, tmp_path: Path, server: Callable[[Answer], str]
) -> None:
    asked = []

    def answer(handler: BaseHTTPRequestHandler, name: str) -> None:
        asked.append(name)
        send(handler, (published / name).read_bytes())

    url = server(answer)
    first = multi30k(url=url, cache=tmp_path)
    assert sorted(asked) == sorted(SHA256)
    assert multi30k(url=url, cache=tmp_path) == first
    assert len(asked) == len(SHA256)


def test_a_download_with_another_hash_is_refused(tmp_path: Path, server: Callable[[Answer], str]) -> None:
    url = server(lambda handler, name: send(handler, b"something else"))
    message = refusal(url=url, cache=tmp_path)
    assert message.startswith(f"{url}train.de.gz: what came is not the published file")
    assert nothing_kept(tmp_path)


def test_a_file_the_server_does_not_have_is_refused(tmp_path: Path, server: Callable[[Answer], str]) -> None:
    url = server(lambda handler, name: handler.send_error(404))
    assert f"{url}train.de.gz: cannot be downloaded (the server answers 404 Not Found)" in refusal(
        url=url, cache=tmp_path
    )
    assert nothing_kept(tmp_path)


def test_a_download_that_breaks_off_is_refused(tmp_path: Path, server: Callable[[Answer], str]) -> None:
    url = server(lambda handler, name: send(handler, b"the first part", length=10_000))
    assert f"{url}train.de.gz: cannot be downloaded (the connection broke off)" in refusal(
        url=url, cache=tmp_path
    )
    assert nothing_kept(tmp_path)


def test_neither_mirror_nor_connection_is_refused(tmp_path: Path, server: Callable[[Answer], str]) -> None:
    gone = server(lambda handler, name: None).replace("/raw/", "")
    # Port 1 of this machine: nobody listens there.
    url = f"{gone.rpartition(':')[0]}:1/raw"
    message = refusal(url=url, cache=tmp_path)
    assert (
        "cannot be downloaded (no connection); check the connection, or set COURSE_DATA to a mirror"
        in message
    )
    assert nothing_kept(tmp_path)


def test_a_cache_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert "downloads cannot be kept there" in refusal(cache=tmp_path / "file")
