"""The kernel inside the sandbox: an ipykernel that also answers the judge's requests between two cells."""

import importlib
import json
import logging
import random
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ipykernel.iostream import OutStream
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from traitlets.config import Config

#: The code of the request that makes the kernel serve the judge. It isn't valid Python, so no working cell
#: has the same code.
JUDGE = "answer the judge"


class SandboxedKernel(IPythonKernel):
    """A kernel that also answers the judge's requests about the names in its namespace."""

    judge: socket.socket
    output_bytes: int
    streams: tuple["CappedStream", ...]
    """The kernel's stdout and stderr."""
    has_started = False
    """Whether the kernel has received its first cell or JUDGE request."""

    async def do_execute(self, code: str, *arguments: Any, **keywords: Any) -> dict[str, Any]:
        """Run a cell or, if the code is JUDGE, answer requests until the judge has finished."""
        if not self.has_started:
            # Don't seed earlier: a client requests the banner a varying number of times, and each banner
            # draws a random tip.
            random.seed(0)
            self.has_started = True
        if code != JUDGE:
            for stream in self.streams:
                stream.remaining = 2 * self.output_bytes
            return await super().do_execute(code, *arguments, **keywords)  # type: ignore[no-untyped-call]
        server = importlib.import_module("course_lib.checks.remote.server")
        server.serve(self.judge, self.shell.user_ns)
        return {"status": "ok", "execution_count": 0, "payload": [], "user_expressions": {}}


class CappedStream(OutStream):
    """A stdout or stderr that drops a cell's output beyond a limit.

    Student code can bypass this limit; the judge enforces the real one.
    """

    remaining = 0
    """The number of characters that may still be printed to this stream."""

    def write(self, string: str) -> int:
        """Print as much of the text as the limit allows, and return the length of the whole text."""
        kept = string[: max(0, self.remaining)] if isinstance(string, str) else string
        self.remaining -= len(kept)
        if kept or not isinstance(string, str):
            super().write(kept)
        return len(string)


def serve(
    connection: Mapping[str, Any], judge: int, work: Path, output_bytes: int, ready: Callable[[], None]
) -> None:
    """Serve a Jupyter connection until the kernel is shut down. Call `ready` before any student code runs.

    `judge` is the descriptor of the judge's socket, `work` the kernel's working folder, and `output_bytes`
    the limit on the output of a cell.
    """
    file = work / ".connection.json"
    file.write_text(json.dumps(connection), encoding="utf-8")
    config = Config()
    config.HistoryManager.enabled = False
    config.IPKernelApp.log_level = logging.CRITICAL
    config.IPKernelApp.connection_file = str(file)
    config.IPKernelApp.kernel_class = SandboxedKernel
    config.IPKernelApp.outstream_class = f"{__name__}.{CappedStream.__name__}"
    config.InteractiveShell.colors = "nocolor"
    app = IPKernelApp.instance(config=config)
    app.initialize([])
    kernel = app.kernel
    kernel.judge, kernel.output_bytes = socket.socket(fileno=judge), output_bytes
    kernel.streams = (sys.stdout, sys.stderr)
    app.shell.ask_exit = lambda: None  # After `exit()` in a cell, the other cells still run.
    file.unlink()
    ready()
    app.start()
