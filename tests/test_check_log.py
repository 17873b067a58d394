"""The log of check results, which is off until a student turns it on."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from course_lib.check_log import LOG, Entry, main, read_log
from course_lib.checks import CheckError, check
from course_lib.transformer import attention_scores

LESSON = Path(__file__).parents[1] / "lessons/01-attention"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COURSE_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def not_scaled(query, key):  # type: ignore[no-untyped-def]
    return query @ key.transpose(-2, -1)


def run_checks(**options: object) -> None:
    """Run checks that fail once and then pass."""
    with pytest.raises(CheckError):
        check("attention_scores", {"attention_scores": not_scaled}, **options)  # type: ignore[arg-type]
    check("attention_scores", {"attention_scores": attention_scores}, **options)  # type: ignore[arg-type]


def test_it_is_off_at_first_and_after_off(folder: Path) -> None:
    run_checks()
    assert not folder.exists()
    assert main(["on"]) == main(["off"]) == 0
    run_checks()
    assert not (folder / LOG).exists()


def test_it_records_checks_that_students_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["on"]) == 0
    run_checks()
    entries = read_log(folder / LOG)
    assert [(entry.lesson, entry.check, entry.verdict, entry.attempt) for entry in entries] == [
        ("01-attention", "attention_scores", "wrong", 1),
        ("01-attention", "attention_scores", "right", 2),
    ]
    assert [entry.misconceptions for entry in entries] == [("not_scaled",), ()]
    assert "code" not in (folder / LOG).read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["show"]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith((folder / LOG).read_text(encoding="utf-8"))
    assert main(["delete"]) == 0
    assert not (folder / LOG).exists()


def test_grading_is_not_recorded(folder: Path) -> None:
    assert main(["on"]) == 0
    with pytest.raises(CheckError):
        check(
            "attention_scores",
            {"attention_scores": not_scaled},
            grading={"points": 4, "seed": 1, "costs": {}},
        )
    assert not (folder / LOG).exists()


def test_code_is_recorded_and_handed_in_only_on_request(folder: Path, tmp_path: Path) -> None:
    cell = tmp_path / "cell.py"
    cell.write_text(
        "def attention_scores(query, key):\n    return query @ key.transpose(-2, -1)\n", encoding="utf-8"
    )
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(cell.read_text(encoding="utf-8"), str(cell), "exec"), names)
    assert main(["on", "--with-code"]) == 0
    with pytest.raises(CheckError):
        check("attention_scores", names)
    [entry] = read_log(folder / LOG)
    assert entry.code == cell.read_text(encoding="utf-8")

    lesson = tmp_path / "lessons" / LESSON.name
    shutil.copytree(LESSON, lesson)
    assert not (lesson / LOG).exists()
    assert main(["hand-in", str(lesson)]) == 0
    assert [handed_in.code for handed_in in read_log(lesson / LOG)] == [""]
    assert main(["hand-in", str(lesson), "--with-code"]) == 0
    assert read_log(lesson / LOG) == [entry]


def test_only_entries_of_the_lesson_are_handed_in(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["on"]) == 0
    run_checks()
    other = tmp_path / "02-multi-head"
    shutil.copytree(LESSON.parent / other.name, other)
    assert main(["hand-in", str(other)]) == 1
    assert "no entries for 02-multi-head" in capsys.readouterr().err
    assert main(["hand-in", str(tmp_path)]) == 1
    assert "expected a lesson's folder" in capsys.readouterr().err


def test_damaged_lines_are_skipped_and_never_extended(folder: Path) -> None:
    assert main(["on"]) == 0
    for line in ('{"time": "2026', "[1]", "null", '{"time": 1}', '{"misconceptions": 3}', "[" * 100_000):
        with (folder / LOG).open("a", encoding="utf-8") as file:
            file.write(line)  # no newline, as after a power failure
        check("attention_scores", {"attention_scores": attention_scores})
    entries = read_log(folder / LOG)
    assert [entry.attempt for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert json.loads((folder / LOG).read_text(encoding="utf-8").splitlines()[-1])["verdict"] == "right"


def test_a_log_that_cannot_be_written_fails_no_check(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["on"]) == 0
    (folder / LOG).mkdir()
    check("attention_scores", {"attention_scores": attention_scores})
    printed = capsys.readouterr()
    assert "✓ attention_scores" in printed.out
    assert "The check log could not be written" in printed.err


def test_code_with_other_line_separators_is_kept(tmp_path: Path) -> None:
    entry = Entry("2026-01-01T00:00:00+00:00", "01-attention", "attention_scores", "wrong", (), 1, "")
    entries = [replace(entry, code=f"a{separator}b") for separator in "\u2028\u2029\x85\x0b\x0c\r\n"]
    lines = [json.dumps(asdict(one), ensure_ascii=False) for one in entries]
    (tmp_path / LOG).write_text("\n".join([*lines, ""]), encoding="utf-8")
    assert read_log(tmp_path / LOG) == entries


def test_a_log_is_shown_in_any_encoding(folder: Path) -> None:
    entry = Entry("2026-01-01T00:00:00+00:00", "01-attention", "attention_scores", "wrong", (), 1, "α = 1")
    folder.mkdir()
    (folder / LOG).write_text(json.dumps(asdict(entry), ensure_ascii=False), encoding="utf-8")
    shown = subprocess.run(
        [sys.executable, "-m", "course_lib.check_log", "show"],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert r"\u03b1 = 1" in shown.stdout
