"""Lines are yielded as they arrive: one by one from a keyboard, many at once from a file."""

import os
import pty
import tty
from pathlib import Path

import pytest

from course_lib.errors import BadInputError
from course_lib.translation.translate import READ_BYTES, arriving_lines


def of_bytes(content: bytes) -> list[list[str]]:
    receiver, sender = os.pipe()
    os.write(sender, content)
    os.close(sender)
    try:
        return list(arriving_lines(receiver, "a pipe"))
    finally:
        os.close(receiver)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"ein Hund\nzwei", ["ein Hund", "zwei"]),
        (b"ein Hund\r\n\n  zwei \n", ["ein Hund", "", "zwei"]),
        ("\ufeffgroß\u2028und\x0bklein\n".encode(), ["groß\u2028und\x0bklein"]),
    ],
)
def test_only_a_line_feed_ends_a_line(content: bytes, lines: list[str]) -> None:
    assert [line for some in of_bytes(content) for line in some] == lines


def test_a_file_gives_many_at_once_and_loses_none(tmp_path: Path) -> None:
    expected = [f"Satz {number} {'ü' * (number % 700)}." for number in range(4000)]
    path = tmp_path / "long.de"
    path.write_text("\n".join(expected), "utf-8")
    with path.open("rb") as file:
        lists = list(arriving_lines(file.fileno(), str(path)))
    assert [line for some in lists for line in some] == expected
    components = path.stat().st_size / READ_BYTES
    assert 2 < components <= len(lists) <= components + 2, (
        "many at a time, even if a read ends inside a character"
    )


def test_nobody_waits_for_a_second_line() -> None:
    receiver, sender = os.pipe()
    arriving = arriving_lines(receiver, "a pipe")
    os.write(sender, b"eins\nzw")
    assert next(arriving) == ["eins"]
    os.write(sender, b"ei\ndrei\n")
    assert next(arriving) == ["zwei", "drei"]
    os.close(sender)
    assert list(arriving) == []
    os.close(receiver)


def test_a_keyboard_gives_line_by_line() -> None:
    keyboard, terminal = pty.openpty()
    tty.setcbreak(keyboard)
    os.write(keyboard, b"eins\nzwei\n")
    arriving = arriving_lines(terminal, "a terminal")
    # A terminal may return one or both of the lines that were typed.
    first = next(arriving)
    assert first == ["eins", "zwei"][: len(first)]
    os.close(keyboard)
    os.close(terminal)


def test_other_bytes_are_refused_by_line_after_those_before_were_taken() -> None:
    receiver, sender = os.pipe()
    os.write(sender, b"eins\nzwei\nD\xfcne\nvier\n")
    os.close(sender)
    arriving = arriving_lines(receiver, "a pipe")
    assert next(arriving) == ["eins", "zwei"]
    with pytest.raises(BadInputError, match="a pipe, line 3: not valid UTF-8"):
        next(arriving)
    os.close(receiver)
