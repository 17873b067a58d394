"""The documentation site, built once for all tests, without executing the lessons."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.made_once import made_once

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Site:
    """A built site and the warnings from its build."""

    folder: Path
    built: bool
    warnings: str


def built_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Build the site as `make docs` does, except that the lessons are not executed."""

    def build() -> Site:
        folder = tmp_path_factory.mktemp("site")
        pages = folder / "docs"
        shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("_build", "lessons"))
        for file in ("CONTRIBUTING.md", "CHANGELOG.md"):
            shutil.copy(ROOT / file, folder)
        lessons = [sys.executable, ROOT / "docs/lessons.py", "--no-execute", "--into", pages / "lessons"]
        subprocess.run(lessons, check=True)
        sphinx = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
        done = subprocess.run([*sphinx, pages, folder / "site"], capture_output=True, text=True, check=False)
        return Site(folder / "site", done.returncode == 0, done.stderr)

    return made_once(tmp_path_factory, "site", build)
