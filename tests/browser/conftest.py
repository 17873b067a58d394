"""A real JupyterLab, in a real Chromium, with no internet."""

import os
import secrets
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from course_lib.progress.lab import command

CHROMIUM = os.environ.get("COURSE_CHROMIUM") or shutil.which("chromium")


@pytest.fixture
def chromium() -> str:
    """The browser's path. On a machine without one these tests are left out, but not in CI."""
    if CHROMIUM is None:
        assert not os.environ.get("CI"), "CI installs Chromium (.ci/run), and there is none"
        pytest.skip("no Chromium here: install it, or set COURSE_CHROMIUM to its path")
    return CHROMIUM


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What JupyterLab shows."""
    (tmp_path / "lessons").mkdir()
    return tmp_path / "lessons"


@pytest.fixture
def lab(folder: Path, tmp_path: Path) -> Iterator[str]:
    """A running JupyterLab on the folder; gives its address, with the token."""
    # All cells are on the page, also those that are scrolled away.
    _set(tmp_path / "settings", "notebook-extension/tracker", '{"windowingMode": "none"}')
    # What Validate runs: importing torch may take longer than nbgrader's 30 seconds on two busy cores.
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "nbgrader_config.py").write_text("get_config().Execute.timeout = 120\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(8)
    environment = os.environ | {
        "JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "settings"),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    options = ["--no-browser", "--allow-root", f"--port={port}", f"--IdentityProvider.token={token}"]
    started = command(folder, [*options, "--LabApp.expose_app_in_browser=True"])
    with (tmp_path / "lab.log").open("w") as log:
        server = subprocess.Popen(started, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=folder)
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for(f"{address}/api/status?token={token}", server, tmp_path / "lab.log")
            yield f"{address}/lab/tree/{{}}?token={token}"
        finally:
            server.kill()
            server.wait()


def _set(settings: Path, plugin: str, values: str) -> None:
    path = settings / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(values)


def _wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(240):
        assert server.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(address, timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"JupyterLab did not answer:\n{log.read_text()}")


@pytest.fixture
def page(chromium: str) -> Iterator[Page]:
    """A window of Chromium that reaches this machine alone."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
        )
        window = browser.new_page(viewport={"width": 1300, "height": 1400})
        window.route(lambda address: "127.0.0.1" not in address, lambda route: route.abort())
        window.set_default_timeout(120_000)
        expect.set_options(timeout=120_000)  # two busy cores take their time
        yield window
        browser.close()
