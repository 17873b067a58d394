"""Fixtures: a real JupyterLab in a real Chromium, without internet access."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from course_lib.student.progress.lab import command
from tests.browser.jupyterlab import jupyterlab

CHROMIUM = os.environ.get("COURSE_CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium. Without it, the browser tests are skipped locally and fail in CI."""
    if CHROMIUM is None:
        assert not os.environ.get("CI"), "CI installs Chromium (.ci/run), but it wasn't found"
        pytest.skip("no Chromium here: install it, or set COURSE_CHROMIUM to its path")
    return CHROMIUM


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that JupyterLab shows."""
    (tmp_path / "lessons").mkdir()
    return tmp_path / "lessons"


@pytest.fixture
def lab(folder: Path, tmp_path: Path) -> Iterator[str]:
    """Run JupyterLab in the folder, and yield its address with the token."""
    # Render all cells, including those that are scrolled out of view.
    settings = {"notebook-extension/tracker": {"windowingMode": "none"}}
    # Raise the timeout of Validate: on two busy cores, importing torch may exceed nbgrader's default of 30 s.
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "nbgrader_config.py").write_text("get_config().Execute.timeout = 120\n")
    with jupyterlab(command(folder), folder, tmp_path, settings) as server:
        yield server.url("lab/tree/{}")


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """A browser shared by the tests of a module. While it is open, `asyncio.run` can't be called."""
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
        expect.set_options(timeout=120_000)  # two busy cores are slow
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A window of Chromium with its own cookies, which can reach only this machine."""
    with browser.new_context(viewport={"width": 1300, "height": 1400}) as context:
        context.set_default_timeout(120_000)
        window = context.new_page()
        window.route(lambda address: "127.0.0.1" not in address, lambda route: route.abort())
        yield window
