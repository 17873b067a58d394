"""Background runs are monitored, stopped and restarted without harm to live runs or other files."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from course_lib.errors import BadInputError
from course_lib.file_locks import try_lock
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.train.monitoring import BackgroundRun, rows_so_far
from course_lib.translation.train.setup import locked_run

pytestmark = pytest.mark.slow


def test_before_a_run_has_begun_there_are_no_rows(tmp_path: Path) -> None:
    assert rows_so_far(tmp_path / "not-there") == []


def test_a_line_that_is_being_written_is_left_for_the_next_time(tmp_path: Path) -> None:
    whole = json.dumps({"step": 1, "loss": 2.0}) + "\n"
    path = RunFolder(tmp_path).metrics
    path.write_text(whole + '{"step": 2, "lo')
    assert rows_so_far(tmp_path) == [{"step": 1, "loss": 2.0}]
    path.write_text(whole + whole)
    assert len(rows_so_far(tmp_path)) == 2


def test_what_a_run_says_is_known_also_when_it_refuses(tmp_path: Path) -> None:
    run = BackgroundRun.start("no-such-config", tmp_path / "run")
    assert run.wait() == 2
    assert not run.running
    assert run.rows() == []
    assert "no-such-config" in run.last_line()


def test_the_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run = BackgroundRun.start("no-such-config", "~/run")
    run.stop()
    assert run.folder == tmp_path / "run"
    RunFolder(run.folder).metrics.write_text('{"step": 7}\n')
    assert rows_so_far("~/run") == [{"step": 7}]


def test_the_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs: #2")
    folder.path.mkdir()
    with folder.metrics.open("ab") as metrics:
        assert try_lock(metrics)
        run = BackgroundRun.start("captions", folder.path)
        assert run.wait() == 2
    assert f"{folder.path}: another process is training" in run.last_line()


def test_a_run_can_restart_in_the_folder_of_another(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    BackgroundRun.start("no-such-config", folder).stop()
    RunFolder(folder).metrics.write_text('{"step": 7}\n')
    again = BackgroundRun.start("no-such-config", folder, restart=True)
    again.stop()
    assert again.rows() == []


@pytest.mark.parametrize(
    "besides", [(), ("config.yaml",), ("config.yaml", "metrics.jsonl", "data/contents.json")]
)
def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path, besides: tuple[str, ...]) -> None:
    (tmp_path / "data").mkdir()
    for name in ("data/train.de", *besides):
        (tmp_path / name).write_text("three years of work")
    with pytest.raises(BadInputError, match="this folder holds something other than a run"):
        BackgroundRun.start("captions", tmp_path, restart=True)
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"data/train.de", *besides}


def test_nothing_is_written_into_a_folder_without_a_run(tmp_path: Path) -> None:
    for name in ("output.txt", "thesis.tex"):
        (tmp_path / name).write_text("three years of work")
    with pytest.raises(BadInputError, match=r"isn't the folder of a run \(it contains thesis\.tex\)"):
        BackgroundRun.start("captions", tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["three years of work"] * 2


def test_a_config_alone_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("seed: 1")
    with pytest.raises(BadInputError, match="something other than a run"):
        BackgroundRun.start("captions", tmp_path, restart=True)
    assert (tmp_path / "config.yaml").exists()


#: A program that replaces a run. It exits with code 7 when it receives SIGTERM.
_STAND_IN = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("started", flush=True)
time.sleep(60)
"""


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BackgroundRun]:
    popen = subprocess.Popen
    with monkeypatch.context() as patched:
        patched.setattr(
            subprocess, "Popen", lambda _, **options: popen([sys.executable, "-c", _STAND_IN], **options)
        )
        run = BackgroundRun.start("captions", tmp_path / "run")
    while run.last_line() != "started":
        time.sleep(0.01)
    yield run
    run.stop()


def test_a_live_run_is_stopped_before_its_folder_is_deleted(live: BackgroundRun) -> None:
    again = BackgroundRun.start("no-such-config", live.folder, restart=True)
    assert not live.running
    assert live.wait() == 7
    assert again.wait() == 2
    assert "no-such-config" in again.last_line()


def test_an_earlier_process_is_not_named_while_a_run_starts(
    live: BackgroundRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.stop()
    popen, found = subprocess.Popen, []

    def start(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        found.append((live.folder / "process.txt").exists())
        return popen(command, **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    BackgroundRun.start("no-such-config", live.folder).stop()
    assert found == [False]


def test_a_live_run_is_not_resumed_by_another_process(live: BackgroundRun) -> None:
    with pytest.raises(BadInputError, match="a run is still in progress in this folder"):
        BackgroundRun.start("captions", live.folder)
    assert live.running
    assert live.last_line() == "started"


def test_a_live_run_on_another_machine_is_left_alone(live: BackgroundRun) -> None:
    process = live.folder / "process.txt"
    process.write_text(f"{process.read_text().split()[0]} another-machine")
    with pytest.raises(BadInputError, match="a run is still in progress"):
        BackgroundRun.start("captions", live.folder, restart=True)
    assert live.running


def test_a_run_in_a_terminal_is_left_alone(tmp_path: Path) -> None:
    with locked_run(RunFolder(tmp_path)):
        with pytest.raises(BadInputError, match="a run is still in progress"):
            BackgroundRun.start("captions", tmp_path, restart=True)
        again = locked_run(RunFolder(tmp_path))
        with pytest.raises(BadInputError, match="another process is training in this run folder"), again:
            pass
    with locked_run(RunFolder(tmp_path)):
        pass
