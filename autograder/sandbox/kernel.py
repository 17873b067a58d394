"""The kernel inside the sandbox: ipykernel, which also answers the judge between two cells."""

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

#: The code of the request that has the kernel answer the judge. It is no Python.
JUDGE = "answer the judge"


class SandboxedKernel(IPythonKernel):
    """Runs cells like any other kernel. On the judge's request it answers what is asked of the names."""

    judge: socket.socket
    output_bytes: int
    began = False
    """Whether it has run a cell."""

    async def do_execute(self, code: str, *arguments: Any, **keywords: Any) -> dict[str, Any]:
        """Run a cell, or answer the judge until that says that it is done."""
        if not self.began:
            # Here, and not before: how often a client asks for the banner, with its tip drawn by lot, varies.
            random.seed(0)
            self.began = True
        if code != JUDGE:
            CappedStream.room = 2 * self.output_bytes
            return await super().do_execute(code, *arguments, **keywords)
        serving = importlib.import_module("course_lib.checks.remote.server")
        serving.serve(self.judge, self.shell.user_ns)
        return {"status": "ok", "execution_count": 0, "payload": [], "user_expressions": {}}


class CappedStream(OutStream):
    """Drops what a cell prints beyond a limit, so that a flood is no work for anyone.

    A courtesy: the other side has a limit too, which code that is run here cannot lift.
    """

    room = 0
    """How many characters may still be printed, to stdout and stderr together."""

    def write(self, string: str) -> int:
        """Print what there is room for."""
        kept = string[: max(0, CappedStream.room)] if isinstance(string, str) else string
        CappedStream.room -= len(kept)
        if kept or not isinstance(string, str):
            super().write(kept)
        return len(string)


def serve(
    connection: Mapping[str, Any], judge: int, work: Path, output_bytes: int, ready: Callable[[], None]
) -> None:
    """Start the kernel on the sockets of a connection. `ready` is called before any student's code runs."""
    SandboxedKernel.judge = socket.socket(fileno=judge)
    SandboxedKernel.output_bytes = output_bytes
    file = work / ".connection.json"
    file.write_text(json.dumps(connection))
    config = Config()
    config.HistoryManager.enabled = False
    config.IPKernelApp.log_level = logging.CRITICAL
    config.IPKernelApp.connection_file = str(file)
    config.IPKernelApp.kernel_class = SandboxedKernel
    config.InteractiveShell.colors = "nocolor"
    app = IPKernelApp.instance(config=config)
    app.initialize([])
    for stream in (sys.stdout, sys.stderr):
        stream.__class__ = CappedStream  # ipykernel would import it by name, and here nobody can
    app.shell.ask_exit = lambda: None  # `exit()` in a cell is no reason to run the others without its names
    file.unlink()
    ready()
    app.start()
