from pathlib import Path

import pytest

from tests.autograder.sandbox.confined import run, skip_where_missing


@pytest.fixture(autouse=True)
def _landlock() -> None:
    skip_where_missing(["landlock"])


def test_a_folder_for_sockets_is_for_sockets_alone(tmp_path: Path) -> None:
    folder = tmp_path / "sockets"
    folder.mkdir()
    (folder / "note").write_text("of another")
    code = """
restrict([], [], [Path(sockets)])
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sockets + "/kernel")
    listener.listen()
print(sorted(os.listdir(sockets)))
os.remove(sockets + "/kernel")
for attempt in ("open(sockets + '/note')", "open(sockets + '/file', 'w')", "os.mkdir(sockets + '/folder')"):
    try:
        exec(attempt)
        print(attempt)
    except PermissionError:
        pass
"""
    done = run(code, (), tmp_path, sockets=folder)
    assert done.stdout == "['kernel', 'note']\n", done.stderr
    assert [path.name for path in folder.iterdir()] == ["note"]


def test_a_single_file_can_be_readable_and_missing_paths_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "shipped.txt").write_text("data")
    (tmp_path / "hidden.txt").write_text("tests")
    code = """
shipped = Path(folder) / "shipped.txt"
restrict([shipped, shipped / "below", Path(folder) / "missing"], [], [])
print(open(folder + "/shipped.txt").read())
open(folder + "/hidden.txt")
"""
    done = run(code, (), tmp_path, folder=tmp_path)
    assert done.stdout.splitlines()[0] == "data", done.stderr
    assert "refused: PermissionError" in done.stdout


def test_readable_is_not_writable_and_writable_is_not_executable(tmp_path: Path) -> None:
    (tmp_path / "read").mkdir()
    (tmp_path / "read" / "file").write_text("data")
    (tmp_path / "write").mkdir()
    code = """
import shutil, subprocess
shutil.copy("/bin/true", folder + "/write/program")
restrict([Path("/usr"), Path("/lib"), Path("/lib64"), Path(folder) / "read"], [Path(folder) / "write"], [])
for attempt in (
    "open(folder + '/read/file', 'a')",
    "os.remove(folder + '/read/file')",
    "os.rename(folder + '/read/file', folder + '/write/file')",
    "subprocess.run([folder + '/write/program'])",
):
    try:
        exec(attempt)
        print(attempt)
    except OSError:
        pass
"""
    done = run(code, (), tmp_path, folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert (tmp_path / "read" / "file").read_text() == "data"


def test_it_holds_for_what_is_started_and_cannot_be_loosened(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("tests")
    code = """
import subprocess, sys
restrict([Path("/usr"), Path("/lib"), Path("/lib64"), Path("/bin")], [], [])
restrict([Path("/")], [Path("/")], [])
print(subprocess.run(["cat", secret], capture_output=True, text=True))
"""
    done = run(code, (), tmp_path, secret=tmp_path / "secret")
    assert "returncode=1, stdout=''" in done.stdout, done.stderr
