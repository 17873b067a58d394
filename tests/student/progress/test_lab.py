"""The copy of the lessons that `course lab` creates."""

import tomllib
from pathlib import Path

import pytest

from course_lib.student.progress import ProgressError, lab

ROOT = Path(__file__).parents[3]


def fake_jupyter(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Prevent JupyterLab from starting, and return a list that records its command."""
    started: list[str] = []
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("os.execv", lambda program, command: started.extend(command))
    return started


def test_a_new_folder_gets_a_copy_of_the_lessons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = fake_jupyter(monkeypatch)
    folder = tmp_path / "my lessons"
    lab.main([str(folder)])
    lesson = Path("01-attention", "01-attention.ipynb")
    assert (folder / lesson).read_bytes() == (ROOT / "lessons" / lesson).read_bytes()
    assert (folder / "start.md").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["my lessons"]
    assert f"--notebook-dir={folder}" in started


def test_an_existing_folder_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = fake_jupyter(monkeypatch)
    assert lab.main([str(tmp_path)]) == 1
    assert "contains no lessons" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert started == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port", "9000", "FOLDER", "--no-browser"],
        ["FOLDER", "--port", "9000", "--no-browser"],
        ["--port=9000", "--no-browser", "FOLDER"],
    ],
)
def test_options_are_passed_to_jupyterlab(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = fake_jupyter(monkeypatch)
    folder = tmp_path / "mine"
    lab.main([str(folder) if argument == "FOLDER" else argument for argument in arguments])
    assert started[-2:] == ["--port=9000", "--no-browser"]
    assert f"--notebook-dir={folder}" in started
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_missing_lessons_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "__file__", str(tmp_path / "course_lib/student/progress/lab.py"))
    monkeypatch.setattr(lab, "files", lambda name: [])
    with pytest.raises(ProgressError, match="without its lessons"):
        lab.installed_lessons()


def test_the_wheel_has_all_lessons() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = [
        pattern for listed in settings["tool"]["setuptools"]["data-files"].values() for pattern in listed
    ]
    packed = {path for pattern in patterns for path in ROOT.glob(pattern)}
    notebooks = set((ROOT / "lessons").glob("*/*.ipynb"))
    assert notebooks
    assert notebooks <= packed
