"""Lessons 00 to 11 without fork, alarm signals, Unix modules, or UTF-8 as the default encoding."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path, PureWindowsPath
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_output

from course_lib.student.progress import is_lesson

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

ROOT = Path(__file__).parents[2]
#: The settings of an old Windows console. On Linux, the locale C makes ASCII the default encoding.
CONSOLE = {
    "LC_ALL": "C",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONUTF8": "0",
    "PYTHONIOENCODING": "cp1252",
    "PYTHONWARNDEFAULTENCODING": "1",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("another system")
    lessons = shutil.copytree(ROOT / "lessons", folder / "my lessons")
    finish_a_lesson(lessons / "01-attention" / "01-attention.ipynb")
    command = [sys.executable, "-m", "tests.student.on_another_system", lessons, folder / "results.json"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | CONSOLE, capture_output=True, encoding="cp1252", check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return found | {"printed": done.stdout, "page": (lessons / "start.md").read_text(encoding="utf-8")}


def finish_a_lesson(path: Path) -> None:
    """Save a lesson as if all of its checks had passed."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if cell.cell_type == "code" and name.startswith("check_"):
            name = name.removeprefix("check_")
            cell.outputs = [new_output("stream", name="stdout", text=f"✓ {name}: correct")]
    nbformat.write(notebook, path)


def test_the_platform_is_another_one(results: dict[str, Any]) -> None:
    seen = results["platform"]
    assert seen["platform"] == "win32"
    assert seen["start"] == "spawn"
    assert seen["printing"] == "cp1252"
    assert not seen["fork"]
    assert not seen["alarm"]
    assert seen["importable"] == []
    if sys.platform == "linux":
        assert seen["encoding"] not in ("UTF-8", "utf-8")


def test_the_lessons_imports_work(results: dict[str, Any]) -> None:
    assert {"course_lib.checks", "course_lib.charts", "course_lib.student.progress"} < set(
        results["imported"]
    )


def test_correct_answers_pass(results: dict[str, Any]) -> None:
    verdicts = results["checks"]["right"]
    assert {"scaled_dot_product_attention", "Transformer", "beam_search"} < set(verdicts)
    assert [name for name, told in verdicts.items() if not told.startswith("✓")] == []


def test_mistakes_are_named(results: dict[str, Any]) -> None:
    verdicts = results["checks"]["wrong"]
    assert len(verdicts) > 15
    for mistake, told in verdicts.items():
        name, _, statement = mistake.partition(" ")
        assert told.startswith(f"✗ {name}: ")
        assert statement in " ".join(told.split())


def test_the_time_limit_holds(results: dict[str, Any]) -> None:
    assert "did not return within" in " ".join(results["endless"].split())


def test_progress_is_shown_in_an_old_console(results: dict[str, Any]) -> None:
    assert results["progress"]["code"] == 0
    assert "01 Scaled dot-product attention" in " ".join(results["progress"]["output"].split())


def test_the_lab_writes_the_start_page_and_starts_jupyterlab(results: dict[str, Any]) -> None:
    assert results["lab"]["code"] == 0
    assert results["printed"].strip()[0].isdigit()
    assert "all 5 checks pass ✓" in results["page"]


def test_lessons_are_recognised_by_paths_with_backslashes() -> None:
    path = PureWindowsPath(r"C:\Users\Noor\my lessons\01-attention\01-attention.ipynb")
    assert is_lesson(path)  # type: ignore[arg-type]
