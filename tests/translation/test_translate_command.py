"""The command `python -m course_lib.translation.translate`: what it reads, writes and rejects."""

import contextlib
import errno
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from course_lib.errors import ExitCode
from course_lib.translation import translate as command
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.decoding import translator as decoding_translator
from course_lib.translation.decoding.search_settings import load_settings, save_settings
from course_lib.translation.decoding.translator import Translator
from course_lib.translation.translate import main

pytestmark = pytest.mark.slow

GERMAN = ["zwei rote Hunde.", "drei große Bäume und vier schöne Züge."]


@pytest.fixture
def german(tmp_path: Path) -> Path:
    path = tmp_path / "some.de"
    path.write_text(f"{GERMAN[0]}\n\n{GERMAN[1]}\n", "utf-8")
    return path


def test_one_line_in_one_line_out(
    trained_folder: Path, translator: Translator, german: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = translator.translate(GERMAN)
    assert main([str(trained_folder), str(german)]) == 0
    assert capsys.readouterr().out == f"{first}\n\n{second}\n"


def test_options_reach_the_search(
    trained_folder: Path, translator: Translator, german: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, expected in (
        (["--beam", "1"], translator.translate(GERMAN, beam=1)),
        (["--alpha", "0", "--beam=4"], translator.translate(GERMAN, beam=4, alpha=0.0)),
    ):
        assert main([str(trained_folder), *options, str(german)]) == 0
        assert capsys.readouterr().out.split("\n") == [expected[0], "", expected[1], ""]


def test_the_precision_reaches_the_translator(
    trained_folder: Path, german: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(decoding_translator, "has_bfloat16", lambda device: False)
    assert main([str(trained_folder), str(german), "--precision", "bfloat16"]) == ExitCode.BAD_INPUT
    assert "--precision: this device doesn't support bfloat16 matrix" in capsys.readouterr().err
    assert main([str(trained_folder), str(german), "--precision=float32"]) == 0
    with pytest.raises(SystemExit):
        main([str(trained_folder), str(german), "--precision", "int4"])
    assert "invalid choice: 'int4'" in capsys.readouterr().err


def test_n_best_are_rows(
    trained_folder: Path, translator: Translator, german: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(trained_folder), str(german), "--n-best", "2"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"]
    expected = [each for found in translator.n_best(GERMAN, 2) for each in found]
    assert [row[3] for row in rows if row[0] != "2"] == [each.text for each in expected]
    assert [row[1] for row in rows if row[0] != "2"] == [f"{each.score:.4f}" for each in expected]
    assert rows[2][1:] == ["0.0000", "0.0000", ""]


def test_the_output_is_whole_or_not_there(
    trained_folder: Path, german: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "some.en"
    assert main([str(trained_folder), str(german), "--output", str(output)]) == 0
    assert len(output.read_text("utf-8").splitlines()) == 3
    assert capsys.readouterr().out == ""
    output.unlink()
    german.write_bytes(b"ein Hund\n\xff\n")
    assert main([str(trained_folder), str(german), "--output", str(output)]) == 2
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["some.de"]


def test_a_cut_line_is_told_of_and_not_lost(
    trained_folder: Path, german: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    german.write_text(f"{GERMAN[0]}\n{'Hunde ' * 10_000}\n{GERMAN[0]}\n", "utf-8")
    assert main([str(trained_folder), str(german)]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert len(lines) == 3
    assert lines[0] == lines[2]
    assert "translate: line 2 has " in printed.err
    assert "tokens, and only the first 40 are translated" in printed.err


def test_a_line_of_unknown_characters_is_reported(
    trained_folder: Path, german: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    german.write_text("zwei schöne Züge.\n日本語 2\n\nПривет, мир\n", "utf-8")
    assert main([str(trained_folder), str(german)]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 4
    assert [line.split(" consists")[0] for line in printed.err.splitlines()] == [
        "translate: line 2",
        "translate: line 4",
    ]
    assert "mostly of characters that the model doesn't know" in printed.err


@pytest.mark.parametrize(("to_file", "shown"), [(True, True), (False, False)])
def test_a_terminal_shows_how_much_of_a_file_is_done_where_no_text_goes(
    trained_folder: Path, german: Path, tmp_path: Path, to_file: bool, shown: bool
) -> None:
    output = ["--output", str(tmp_path / "some.en")] if to_file else []
    reader, terminal = pty.openpty()
    started = subprocess.Popen(
        [sys.executable, "-m", command.__name__, str(trained_folder), str(german), *output],
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "160"},
    )
    os.close(terminal)
    said = b""
    with contextlib.suppress(OSError):  # Linux raises it when the last writer has closed the terminal
        while part := os.read(reader, 65536):
            said += part
    os.close(reader)
    assert started.wait(60) == 0
    size = german.stat().st_size
    assert (f"{size}/{size} bytes" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode())) is shown


def test_tuning_keeps_what_it_finds(trained_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = RunFolder(trained_folder).search
    before = load_settings(kept)
    assert before is not None
    try:
        kept.unlink()
        assert main([str(trained_folder), "--tune", "--beam", "3"]) == 0
        # The settings stay the same, because the run tuned them on the same sentences with the same model.
        assert load_settings(kept) == before
        printed = capsys.readouterr()
        assert printed.out == ""
        assert f"alpha {before.alpha:.1f}" in next(row for row in printed.err.splitlines() if "chosen" in row)
    finally:
        save_settings(kept, before)
    assert main([str(trained_folder), "--tune", "--beam", "1"]) == 2


def test_tuning_saves_the_length_penalty_alone(trained_folder: Path) -> None:
    kept = RunFolder(trained_folder).search
    before = load_settings(kept)
    assert before is not None
    try:
        assert main([str(trained_folder), "--tune", "--beam", "2"]) == 0
        after = load_settings(kept)
        assert after == replace(before, alpha=after.alpha if after else 0)
    finally:
        save_settings(kept, before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["nowhere.de"], "nowhere.de: No such file or directory"),
        (["--beam", "0"], "beam: expected a number from 1 to 100, got 0"),
        (["--beam", "10000"], "beam: expected a number from 1 to 100, got 10000"),
        (["--n-best", "500"], "n_best: expected a number from 1 to the beam, which is 100, got 500"),
        (["--alpha", "nan"], "alpha: expected 0 or more, got nan"),
        (["--beam", "2", "--n-best", "3"], "n_best: expected a number from 1 to the beam, which is 2, got 3"),
        (["--n-best", "0"], "n_best: expected a number from 1 to the beam"),
        (
            ["--checkpoint", "bset"],
            "bset: there is no such file. Pass the file of a model, or a kind of model that the run has: "
            "last, best, averaged.",
        ),
        (["--device", "meta"], "device: expected cpu, cuda or auto, got meta"),
        (["--device", "abacus"], "device: expected cpu, cuda or auto, got abacus"),
    ],
)
def test_bad_input_ends_with_one_line(
    options: list[str],
    message: str,
    trained_folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([str(trained_folder), *options]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"translate: {message}")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_closed_and_full_streams_are_refused(
    trained_folder: Path, german: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", None)
        assert main([str(trained_folder)]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err == "translate: standard input is closed. Pass the file to translate.\n"
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", None)
        assert main([str(trained_folder), str(german)]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err == "translate: standard output is closed. Name a file with --output.\n"
    with monkeypatch.context() as patched, Path("/dev/full").open("w", encoding="utf-8") as full:
        patched.setattr(sys, "stdout", full)
        assert main([str(trained_folder), str(german)]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err == (
        "translate: standard output cannot be written (No space left on device).\n"
    )


def test_a_read_error_names_the_input(
    trained_folder: Path, german: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    output = german.with_suffix(".en")
    with monkeypatch.context() as patched:
        patched.setattr(os, "read", fail)
        assert main([str(trained_folder), str(german), "--output", str(output)]) == ExitCode.BAD_INPUT
    message = f"translate: {german}: this file cannot be read (Input/output error).\n"
    assert capsys.readouterr().err == message
    assert not output.exists()


def test_output_that_cannot_be_kept_is_refused(
    trained_folder: Path, german: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(trained_folder), str(german), "--output", str(german / "x")]) == 2
    assert main([str(trained_folder), str(german), "--output", ""]) == 2
    link, target = german.with_name("link"), german.with_name("target")
    link.symlink_to(target)
    assert main([str(trained_folder), str(german), "--output", str(link)]) == 0
    assert link.is_symlink()
    assert target.read_text()
    assert main([str(trained_folder), str(german), "--output", os.devnull]) == 0
    assert Path(os.devnull).is_char_device()
    assert "this file cannot be written (Not a directory)" in capsys.readouterr().err


def test_from_a_pipe_to_a_reader_who_has_seen_enough(trained_folder: Path, translator: Translator) -> None:
    """Run the real command: it translates line by line, and ends when the reader closes the pipe."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "course_lib.translation.translate", str(trained_folder), "--device", "cpu"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    for sentence, expected in zip(GERMAN, translator.translate(GERMAN), strict=True):
        process.stdin.write(f"{sentence}\n".encode())
        process.stdin.flush()
        assert process.stdout.readline().decode() == f"{expected}\n"
    process.stdout.close()
    process.stdin.write(f"{GERMAN[0]}\n".encode())
    process.stdin.close()
    assert process.wait(timeout=60) == 1
    assert process.stderr.read() == b""
    process.stderr.close()
