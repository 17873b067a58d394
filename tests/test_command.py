"""The console command `course`."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import course_lib
from course_lib.__main__ import COMMANDS, main

LESSONS = Path(__file__).parents[1] / "lessons"
ALL = {name: command for group in COMMANDS.values() for name, command in group.items()}


def run(*arguments: str, program: str = "") -> subprocess.CompletedProcess[str]:
    """Run `course` in a new interpreter, after executing the code in `program`."""
    code = f"{program}\nfrom course_lib.__main__ import main\nmain({list(arguments)!r})"
    wide = os.environ | {"COLUMNS": "100"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=wide)


def test_help_lists_every_command_without_importing_torch() -> None:
    ended = run(
        "--help", program="import sys, atexit; atexit.register(lambda: print('torch' in sys.modules))"
    )
    assert ended.returncode == 0
    assert ended.stdout.endswith("False\n")
    for name, command in ALL.items():
        assert f"  {name:<15}{command.help}\n" in ended.stdout


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"course {course_lib.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["trane"]])
def test_an_unknown_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: course COMMAND" in capsys.readouterr().err


def test_every_command_is_a_module() -> None:
    assert all(find_spec(command.module) for command in ALL.values())


def test_a_command_gets_its_arguments_and_ends_with_its_exit_code() -> None:
    ended = run("progress", str(LESSONS))
    assert ended.returncode == 0
    assert "checks pass" in ended.stdout
    ended = run("progress", "no-such-folder")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("no-such-folder: there is no such folder")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lab", "progress", "train", "translate", "fetch", "build", "check"])
def test_the_usage_of_a_command_names_it(name: str) -> None:
    assert run(name, "--help").stdout.startswith(f"usage: course {name} ")


def test_a_command_whose_packages_are_missing_says_what_to_install() -> None:
    """Simulate a machine without Jupyter, such as a cluster node."""
    hide = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("jupyterlab", "nbformat", "jupytext", "nbgrader", "altair", "IPython"):
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Hidden())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in ("jupyterlab", "jupytext") else found(name)
"""
    ended = run("lab", program=hide)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "pip install '.[lessons]'" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert run("fetch", "--help", program=hide).returncode == 0
    assert run("--help", program=hide).returncode == 0
