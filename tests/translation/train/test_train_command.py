"""The training command as a user runs it: alone and under torchrun, with valid and invalid input."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course_lib.errors import ExitCode
from course_lib.translation.train.__main__ import main

pytestmark = pytest.mark.slow

TRAIN = [sys.executable, "-m", "course_lib.translation.train"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *TRAIN[1:]]


def torchrun(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Train in two processes, and check that they end without Python's shutdown.

    During the shutdown, gloo's threads occasionally abort a process. That is rare, so test the cause instead.
    """
    shut_down = tmp_path / "shut-down"
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, os, pathlib\n"
        "if 'LOCAL_RANK' in os.environ:\n"
        f"    atexit.register(pathlib.Path({str(shut_down)!r}).touch)\n",
        "utf-8",
    )
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [*TORCHRUN, *arguments], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert not shut_down.exists()
    return done


def test_two_processes_under_torchrun_train_and_translate(config_file: Path, tmp_path: Path) -> None:
    done = torchrun(tmp_path, str(config_file), "training.epochs=3")
    assert done.returncode == 0, done.stderr
    assert "2 processes; starting." in done.stdout
    assert re.search(r"BLEU \d+\.\d on 23 test sentences \(nrefs:1\|case:mixed", done.stdout)
    assert done.stdout.count("  translated: ") == 3
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr

    folder = tmp_path / "run"
    losses = [
        row["validation_loss"]
        for row in map(json.loads, (folder / "metrics.jsonl").read_text("utf-8").splitlines())
        if "validation_loss" in row
    ]
    assert losses == sorted(losses, reverse=True)
    assert len((folder / "translations.txt").read_text("utf-8").splitlines()) == 23


def test_bad_input_under_torchrun_is_one_visible_line(config_file: Path, tmp_path: Path) -> None:
    done = torchrun(tmp_path, str(config_file), "training.epoch=3")
    assert done.returncode == 1  # torchrun's own exit code
    said = [line for line in done.stderr.splitlines() if line.startswith("train")]
    assert said == [
        f'train: {config_file}: there is no key "training.epoch"; did you mean "training.epochs"?'
    ]
    # torchrun reports which process ended; the lab itself shows no traceback.
    assert "course_lib/translation" not in done.stderr.replace(str(config_file), "")
    assert not (tmp_path / "run").exists()


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == ExitCode.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("train: ")
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["training.epochz=1"], 'there is no key "training.epochz"; did you mean "training.epochs"?'),
        (["data.folder=/nowhere"], "data.folder: /nowhere doesn't exist. Set it to a folder"),
        (["data.folder=/dev/null"], "data.folder: /dev/null is a file. Set it to a folder"),
        (
            ["data.corpus=multi30k", "data.folder=null", "data.mirror=/nowhere"],
            "multi30k: train.de.gz, ",
        ),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert expected in refused(capsys, str(config_file), *arguments)
    assert not (tmp_path / "run").exists()


def test_a_terminal_shows_a_bar(config_file: Path) -> None:
    reader, writer = pty.openpty()
    with os.fdopen(reader, "rb", closefd=True) as terminal:
        started = subprocess.Popen(
            [*TRAIN, str(config_file), "training.epochs=4"],
            stdout=writer,
            stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "160"},
        )
        os.close(writer)
        shown = b""
        with contextlib.suppress(OSError):  # Linux raises it when the last writer has closed the terminal.
            while part := os.read(terminal.fileno(), 65536):
                shown += part
    _, errors = started.communicate(timeout=60)
    assert (started.returncode, errors) == (0, b"")
    text = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown).decode("utf-8")
    assert "28/28" in text
    assert re.search(r"\d/28 .*lr \S+  loss \S+  tokens_per_second \S+", text)
    assert "validation_loss" in text


def test_an_interrupted_run_says_how_to_resume(config_file: Path, tmp_path: Path) -> None:
    started = subprocess.Popen(
        [*TRAIN, str(config_file), "training.epochs=10000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path / "run").glob("checkpoints/*.pt")):
        assert time.monotonic() < deadline
        assert started.poll() is None
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    _, errors = started.communicate(timeout=60)
    assert started.returncode == ExitCode.KEYBOARD
    assert errors == "\nStopped by SIGINT. Run the same command again to resume from the latest checkpoint.\n"


def test_only_the_config_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().err.endswith("error: the following arguments are required: CONFIG\n")


def test_help_documents_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for key in ("run_folder", "data.corpus", "model.d_model [512]", "training.label_smoothing [0.1]"):
        assert f"  {key}\n" in text
