"""Keep a log of your check results on this machine. It is off until you run `course log on`.

While it is on, each check that you run in a notebook appends one line to the log: the time, the exercise, the
verdict, the names of the mistakes that were recognised, and the number of the attempt. Your code is recorded
only if you ask for it (`course log on --with-code`). Nothing is sent anywhere. If your instructor asks for
the log and you agree, `course log hand-in FOLDER` copies the lines of one lesson to that lesson's folder.
"""

import argparse
import contextlib
import inspect
import io
import json
import linecache
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from course_lib.atomic_files import atomic_write_text
from course_lib.curriculum import public_curriculum

#: The file name of the log, both in its own folder and in a lesson's folder.
LOG = "check_log.jsonl"
#: The environment variable that overrides the log's folder.
FOLDER = "COURSE_LOG"
#: A file that exists while the log is on. Its text is `_CODE` if code is recorded as well.
_ON, _CODE = "on", "with code"


@dataclass(frozen=True)
class Entry:
    """An entry of the log: the result of one run of a check."""

    time: str
    """The time in UTC, in ISO 8601."""
    lesson: str
    check: str
    verdict: str
    misconceptions: tuple[str, ...]
    attempt: int
    """The number of runs of this check in the log, including this one."""
    code: str = ""
    """The student's cell, if they chose to record it."""


def log_folder() -> Path:
    """Return the folder of the log, which the environment variable COURSE_LOG can override.

    Raises ImportError if the default is needed and platformdirs is not installed.
    """
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER])
    from platformdirs import user_data_path

    return user_data_path("build-the-transformer") / "check-log"


def append(check: str, verdict: str, misconceptions: tuple[str, ...], answer: object) -> None:
    """Append the result of a check to the log if the log is on.

    `answer` is the object that was checked. Its source is added if the student chose to record code. An
    OSError is printed, not raised. Nothing is recorded if `log_folder` needs platformdirs and it is not
    installed.
    """
    try:
        folder = log_folder()
        if not (folder / _ON).is_file():
            return
        with_code = (folder / _ON).read_text(encoding="utf-8").strip() == _CODE
        lessons = [lesson.name for lesson in public_curriculum().lessons if check in lesson.checked]
        entry = Entry(
            datetime.now(UTC).isoformat(timespec="seconds"),
            "".join(lessons),
            check,
            verdict,
            misconceptions,
            sum(entry.check == check for entry in read_log(folder / LOG)) + 1,
            source_of(answer) if with_code else "",
        )
        _append_line(folder / LOG, _line(entry))
    except ImportError:
        return
    except OSError as error:
        print(f"The check log could not be written: {error}. Your check is not affected.", file=sys.stderr)


def _line(entry: Entry) -> str:
    fields = {name: value for name, value in asdict(entry).items() if value != ""}
    return json.dumps(fields, ensure_ascii=False) + "\n"


def _append_line(path: Path, line: str) -> None:
    """Append a line in a single write, so that two notebooks can share the log.

    If the file doesn't end with a line feed, one is inserted first.
    """
    with path.open("a+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            # End an incomplete last line, which a power failure can leave.
            line = line if file.read(1) == b"\n" else "\n" + line
        file.write(line.encode("utf-8"))


def read_log(path: Path) -> list[Entry]:
    """Return the valid entries of a log file, or an empty list if there is no such file.

    Raises OSError if the file can't be read.
    """
    return parse_log(path.read_bytes()) if path.is_file() else []


def parse_log(content: bytes) -> list[Entry]:
    """Return the entries of a log, in order; lines that aren't valid entries are skipped."""
    entries = []
    # `splitlines` would also split at characters such as U+2028, which JSON strings can contain.
    for line in content.decode("utf-8", errors="replace").split("\n"):
        with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
            entries.append(_entry(json.loads(line)))
    return entries


def _entry(fields: dict[str, Any]) -> Entry:
    """Build an entry from untrusted JSON. Raises TypeError, KeyError or ValueError if it is invalid."""
    entry = Entry(**(fields | {"misconceptions": tuple(fields["misconceptions"])}))
    texts = (entry.time, entry.lesson, entry.check, entry.verdict, entry.code, *entry.misconceptions)
    if not all(isinstance(text, str) for text in texts) or not isinstance(entry.attempt, int):
        raise TypeError("expected a log entry of strings and an integer attempt number")
    datetime.fromisoformat(entry.time)
    return entry


def source_of(answer: object) -> str:
    """Return the source of the notebook cell that defines a function or class.

    The result is empty if the object wasn't defined in a notebook, or if inspecting it raises an exception.
    """
    with contextlib.suppress(Exception):  # An object's own `__getattr__` can raise anything.
        if getattr(answer, "__module__", None) != "__main__":
            return ""
        members = [answer, *vars(answer).values()] if isinstance(answer, type) else [answer]
        codes = (getattr(inspect.unwrap(member), "__code__", None) for member in members if callable(member))
        return next(("".join(linecache.getlines(code.co_filename)) for code in codes if code), "")
    return ""


def hand_in(folder: Path, with_code: bool = False) -> Path:
    """Copy the log's entries for a lesson to a file in the lesson's folder, and return the path of the file.

    The student's code is omitted unless `with_code` is true. Raises ValueError if the folder doesn't contain
    a lesson, or if the log has no entries for it, and OSError if the file can't be written.
    """
    lesson = folder.resolve().name
    if not (folder / f"{lesson}.ipynb").is_file():
        raise ValueError(
            f"{folder}: expected a lesson's folder, such as 01-attention, that contains its notebook"
        )
    entries = [entry for entry in read_log(log_folder() / LOG) if entry.lesson == lesson]
    if not entries:
        raise ValueError(f"The log has no entries for {lesson}, so there is nothing to hand in.")
    kept = entries if with_code else [replace(entry, code="") for entry in entries]
    atomic_write_text(folder / LOG, "".join(map(_line, kept)))
    return folder / LOG


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 on success, 1 after an error, which is printed."""
    parser = argparse.ArgumentParser(
        prog="course log", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    on = commands.add_parser("on", help="start recording")
    on.add_argument("--with-code", action="store_true", help="record your code as well")
    commands.add_parser("off", help="stop recording, and keep the existing entries")
    commands.add_parser("show", help="show everything that was recorded")
    commands.add_parser("delete", help="delete everything that was recorded")
    lesson = commands.add_parser("hand-in", help="copy the entries of a lesson into its folder")
    lesson.add_argument("folder", type=Path, help="the folder of the lesson, such as lessons/01-attention")
    lesson.add_argument("--with-code", action="store_true", help="include your code, if it was recorded")
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    folder = log_folder()
    if options.command == "on":
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic_write_text(folder / _ON, _CODE if options.with_code else "")
        code = "with your code" if options.with_code else "without your code"
        print(f"The log is on ({code}): {folder / LOG}. It stays on this machine.")
    elif options.command == "off":
        (folder / _ON).unlink(missing_ok=True)
        print("The log is off.")
    elif options.command == "show":
        if isinstance(sys.stdout, io.TextIOWrapper):
            # On Windows, the encoding of a file or a pipe may lack characters that occur in a student's code.
            sys.stdout.reconfigure(errors="backslashreplace")
        print(f"The log is {'on' if (folder / _ON).is_file() else 'off'}: {folder / LOG}")
        for entry in read_log(folder / LOG):
            print(_line(entry), end="")
    elif options.command == "delete":
        (folder / LOG).unlink(missing_ok=True)
        print("The log was deleted. Copies in the folders of lessons were not deleted.")
    else:
        path = hand_in(options.folder, options.with_code)
        print(f"Wrote {path}. It is handed in with the lesson; to keep it to yourself, delete the file.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
