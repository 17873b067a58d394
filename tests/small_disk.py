"""A disk of a few kilobytes, for tests of full disks."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """Mount a disk of this size at a folder, with a copy of the folder's files."""
    contents = folder.with_name("contents")
    if folder.exists():
        folder.rename(contents)
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder],
        check=False,
        capture_output=True,
    )
    if done.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        if contents.exists():
            shutil.copytree(contents, folder, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", folder], check=True)
