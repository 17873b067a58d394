"""A JupyterHub with Unix accounts for a test, configured as docs/jupyterhub.md describes."""

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.free_ports import free_ports

ROOT = Path(__file__).parents[2]
#: The folders that users of the hub run programs from.
NEEDED = (Path(sys.base_prefix), Path(sys.prefix), ROOT)
#: The configuration that instructors copy.
CONFIGURATION = ROOT / "docs" / "jupyterhub_config.py"

#: The test's additions: free ports, and a folder for Jupyter's configuration other than /etc/jupyter.
_FOR_THE_TEST = """
c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
c.JupyterHub.hub_port = {hub}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.command = [{proxy!r}]
for environment in (c.Spawner.environment, c.JupyterHub.services[0]["environment"]):
    environment.update({environment!r})
c.Spawner.start_timeout = c.Spawner.http_timeout = 120
"""


def proxy() -> str | None:
    """Return the path of JupyterHub's proxy, or None if it isn't installed."""
    return shutil.which("configurable-http-proxy", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def configuration(names: Mapping[str, object], environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the text of JupyterHub's configuration for a test, and the hub's address.

    `names` maps each name that readers of the guide are told to change to its value.
    """
    public, hub, api, formgrader = free_ports(4)
    text = CONFIGURATION.read_text(encoding="utf-8")
    for name, value in {**names, "FORMGRADER_PORT": formgrader}.items():
        text, count = re.subn(rf"^{name} = .*$", f"{name} = {value!r}", text, flags=re.MULTILINE)
        assert count == 1, name
    text = "from pathlib import Path, PosixPath\n" + text
    text += _FOR_THE_TEST.format(
        public=public, hub=hub, api=api, proxy=proxy(), environment=dict(environment)
    )
    return text, f"http://127.0.0.1:{public}"


def readable(paths: Sequence[Path]) -> list[str]:
    """Return a command prefix that makes the paths readable for every account.

    Python may be installed in root's home folder, which nobody else can enter. Bubblewrap then replaces
    that folder with one that contains only the given paths.
    """
    closed = {parent for path in paths for parent in path.parents if not parent.stat().st_mode & 0o001}
    covered = [path for path in paths if closed & set(path.parents)]
    if not covered:
        return []
    command = ["bwrap", "--dev-bind", "/", "/", "--cap-add", "ALL"]
    made: set[Path] = set()
    for path in covered:
        outermost = min(closed & set(path.parents))
        for folder in reversed(path.parents):
            if folder in made or not folder.is_relative_to(outermost):
                continue
            made.add(folder)
            command += ["--perms", "0755", "--tmpfs" if folder == outermost else "--dir", str(folder)]
        command += ["--ro-bind", str(path), str(path)]
    return [*command, "--"]


@contextmanager
def jupyterhub(folder: Path, text: str, address: str) -> Iterator[Path]:
    """Run JupyterHub in a folder until the block ends, and yield the path of its log."""
    config, log = folder / "jupyterhub_config.py", folder / "jupyterhub.log"
    config.write_text(text, encoding="utf-8")
    environment = {
        key: value
        for key, value in os.environ.items()
        if key != "COURSE_GRADEBOOK" and not key.startswith("JUPYTER")
    }
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    command = [
        *readable(NEEDED),
        *(sys.executable, "-m", "jupyterhub", f"--config={config}"),
    ]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=folder
        )
        try:
            _wait_for(f"{address}/hub/health", process, log)
            yield log
        finally:
            _end(process)


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(150):
        assert process.poll() is None, log.read_text(encoding="utf-8")
        try:
            with urllib.request.urlopen(address, timeout=2):
                return
        except OSError:
            time.sleep(1)
    raise AssertionError(f"JupyterHub did not answer:\n{log.read_text(encoding='utf-8')}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate JupyterHub with SIGTERM, and kill the processes that it leaves behind."""
    try:
        started = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:  # it has already exited
        return
    hub = started[0] if readable(NEEDED) else process  # Bubblewrap doesn't forward signals
    hub.terminate()
    _, left = psutil.wait_procs([psutil.Process(process.pid), *started], timeout=30)
    for each in left:
        each.kill()
    process.wait()
