"""A local web server for the download tests, whose answers the tests specify."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: A function that answers one request, given the handler and the name of the file.
Answer = Callable[[BaseHTTPRequestHandler, str], None]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Serve on a free port until the block ends, and yield the address of the folder with the files."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, self.path.rpartition("/")[2])

        def log_message(self, *_: object) -> None:
            """Do nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/raw/"
    finally:
        server.shutdown()
        server.server_close()


def send(handler: BaseHTTPRequestHandler, content: bytes, max_bytes: int | None = None) -> None:
    """Send a file, or the part from the requested byte on, but at most `max_bytes` bytes."""
    asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
    first = int(asked[1]) if asked else 0
    if asked and first >= len(content):
        handler.send_error(416)
        return
    handler.send_response(206 if asked else 200)
    if asked:
        handler.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
    handler.send_header("Content-Length", str(len(content) - first))
    handler.end_headers()
    handler.wfile.write(content[first:][:max_bytes])


def send_whole(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    """Send a whole file, even if only a part of it is requested."""
    del handler.headers["Range"]
    send(handler, content)
