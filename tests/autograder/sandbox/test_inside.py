"""Folders that students' code leaves behind are measured and removed, whatever is in them."""

import os
from pathlib import Path

import pytest

from autograder.sandbox.inside import _size, remove


@pytest.mark.parametrize(("name", "count"), [("a", 3000), ("a" * 250, 40)], ids=["many", "long"])
def test_folders_nested_too_deep_for_a_path_are_removed(tmp_path: Path, name: str, count: int) -> None:
    left = tmp_path / "left"
    left.mkdir()
    start = os.open(".", os.O_RDONLY)
    try:
        os.chdir(left)
        for _ in range(count):
            os.mkdir(name)
            Path("file").write_bytes(bytes(5000))
            os.chdir(name)
    finally:
        os.fchdir(start)
        os.close(start)
    assert _size(left) > 15 * 5000
    remove(left)
    assert list(tmp_path.iterdir()) == []


def test_folders_without_permissions_are_removed(tmp_path: Path) -> None:
    left, kept = tmp_path / "left", tmp_path / "kept"
    (left / "a" / "b").mkdir(parents=True)
    kept.mkdir()
    (kept / "file").touch()
    (left / "a" / "link").symlink_to(kept)
    for folder in ("a/b", "a", "."):
        (left / folder).chmod(0)
    remove(left)
    assert list(tmp_path.iterdir()) == [kept]
    assert (kept / "file").exists()


def test_a_link_is_removed_and_not_its_target(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    remove(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
