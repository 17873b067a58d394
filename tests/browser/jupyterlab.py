"""A JupyterLab server for tests that leaves no process behind."""

import json
import os
import secrets
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.free_ports import free_ports


@dataclass(frozen=True)
class JupyterLab:
    """A running server."""

    process: subprocess.Popen[bytes]
    origin: str
    token: str
    log: Path

    def url(self, path: str) -> str:
        """Return the address of a path on the server, with the token."""
        return f"{self.origin}/{path}?token={self.token}"


@contextmanager
def jupyterlab(
    command: Sequence[str], folder: Path, scratch: Path, settings: Mapping[str, Mapping[str, Any]]
) -> Iterator[JupyterLab]:
    """Run a command that starts JupyterLab in a folder, and yield the server. It stops when the block ends.

    Jupyter reads `scratch/config` instead of the user's configuration. `settings` maps the names of
    JupyterLab's plugins to their settings.
    """
    for plugin, values in settings.items():
        path = scratch / "settings" / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    [port] = free_ports(1)
    # Don't write to the gradebook of the person who runs the tests.
    environment = {key: value for key, value in os.environ.items() if key != "COURSE_GRADEBOOK"}
    environment |= {
        "JUPYTERLAB_SETTINGS_DIR": str(scratch / "settings"),
        "JUPYTER_CONFIG_DIR": str(scratch / "config"),
        "JUPYTER_RUNTIME_DIR": str(scratch / "runtime"),
        "IPYTHONDIR": str(scratch / "ipython"),
    }
    token = secrets.token_hex(8)
    options = ["--no-browser", "--allow-root", f"--port={port}", f"--IdentityProvider.token={token}"]
    log = scratch / "lab.log"
    with log.open("w") as said:
        process = subprocess.Popen(
            [*command, *options, "--LabApp.expose_app_in_browser=True"],
            stdout=said,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=folder,
        )
        server = JupyterLab(process, f"http://127.0.0.1:{port}", token, log)
        try:
            _wait_for(server)
            yield server
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a server with SIGTERM, and require that it and all processes that it started end."""
    server = psutil.Process(process.pid)  # still exists, because it hasn't been waited for
    started = [server, *server.children(recursive=True)]
    process.terminate()
    _, left = psutil.wait_procs(started, timeout=60)
    described = [each.as_dict(["pid", "name", "cmdline", "status"]) for each in left]
    for each in left:
        each.kill()
    process.wait()
    assert not described, f"these processes of JupyterLab did not end: {described}"


def _wait_for(server: JupyterLab) -> None:
    for _ in range(240):
        assert server.process.poll() is None, server.log.read_text()
        try:
            with urllib.request.urlopen(server.url("api/status"), timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"JupyterLab did not answer:\n{server.log.read_text()}")
