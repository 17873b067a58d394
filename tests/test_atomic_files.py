"""Atomic writes: a failed write leaves the old file, and never a partial one."""

from pathlib import Path

import pytest

from course_lib.atomic_files import atomic_write, atomic_write_text


def test_text_is_written_whole_with_nothing_left_beside_it(tmp_path: Path) -> None:
    atomic_write_text(tmp_path / "a.txt", "Grüße\n")
    atomic_write_text(tmp_path / "a.txt", "Größe\n")
    assert (tmp_path / "a.txt").read_text("utf-8") == "Größe\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_the_name_appears_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    with atomic_write(path) as file:
        file.write(b"half")
        assert not path.exists()
    assert path.read_bytes() == b"half"


def fail_half_way(path: Path) -> None:
    with atomic_write(path) as file:
        file.write(b"half of the new")
        raise KeyboardInterrupt


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        fail_half_way(path)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.bin"]
