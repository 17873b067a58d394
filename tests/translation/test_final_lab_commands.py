"""The configs, keys, options and scripts that lesson 13 mentions exist."""

import re
from pathlib import Path

import nbformat
import pytest

from course_lib.translation.configs.loader import load_config, provided_configs
from course_lib.translation.translate import main as translate

LESSON = Path(__file__).parents[2] / "lessons" / "13-final-lab"
CELLS = nbformat.read(LESSON / "13-final-lab.ipynb", as_version=4).cells
TEXT = "\n".join(cell.source for cell in CELLS)
TYPED = re.findall(r"^(?:course|sbatch) .+$", TEXT, re.MULTILINE)
TRANSLATING = [command for command in TYPED if command.startswith("course translate")]
COMMANDS = [command for command in TYPED if command not in TRANSLATING]


def test_the_students_own_config_is_one() -> None:
    config = load_config(str(LESSON / "my_run.yaml"))
    assert config.data.corpus == "captions"
    # Files next to the notebook are handed in with it, so a run must not be there.
    assert config.run_folder == "../runs/my-run"
    assert f'Path("{config.run_folder}")' in TEXT


def test_it_is_the_provided_one_to_begin_with() -> None:
    own, provided = load_config(str(LESSON / "my_run.yaml")), load_config("captions")
    assert (own.data, own.model) == (provided.data, provided.model)


def test_there_are_commands_of_all_kinds() -> None:
    assert {command.split()[0] for command in COMMANDS} == {"course", "sbatch"}
    assert {command.split()[1] for command in COMMANDS if command.startswith("course")} == {"train", "launch"}
    assert TRANSLATING


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_names_what_is_there(command: str) -> None:
    words = command.split()
    if words[0] == "sbatch":
        words = [word for word in words[1:] if not word.startswith("-")]
        assert (LESSON / words[0]).is_file()
    elif words[1] == "launch":
        assert words[words.index("-m") + 1] == "course_lib.translation.train"
        words = words[words.index("-m") + 1 :]
    else:
        words = words[1:]
    config, *overrides = words[1:]
    if "--parts" in overrides:
        overrides = overrides[: overrides.index("--parts")]
    load_config(str(LESSON / config) if config.endswith(".yaml") else config, overrides)


def test_the_table_names_provided_configs() -> None:
    table = [line for line in TEXT.splitlines() if line.startswith("| a ")]
    named = {name for line in table for name in re.findall(r"`([a-z0-9-]+)`", line)}
    assert {"captions", "multi30k-tiny"} <= named <= provided_configs().keys()


@pytest.mark.parametrize("command", TRANSLATING)
def test_the_command_that_translates_takes_what_is_typed(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = command.split()[2:]
    assert translate(arguments) == 2  # there is no such run here; an unknown option would exit
    assert "../runs/my-run" in capsys.readouterr().err
