"""Run the student's side of the course as on a system other than Unix, for `test_other_systems.py`.

    python -m tests.student.on_another_system LESSONS RESULTS

LESSONS is a copy of the folder `lessons`; the results are written to RESULTS as JSON.
"""

from tests.student.like_windows import ABSENT, install

install()

import contextlib  # noqa: E402
import io  # noqa: E402
import json  # noqa: E402
import locale  # noqa: E402
import multiprocessing  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Mapping  # noqa: E402
from importlib import import_module  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402
from zlib import crc32  # noqa: E402

from course_lib.__main__ import main  # noqa: E402
from course_lib.checks import CheckError, check  # noqa: E402
from course_lib.checks.engine import local_backend  # noqa: E402
from course_lib.checks.engine.exercise import ExerciseCheck  # noqa: E402
from course_lib.checks.engine.prediction import PredictionCheck  # noqa: E402
from course_lib.checks.exercises.registry import catalogue  # noqa: E402
from course_lib.curriculum import public_curriculum  # noqa: E402

#: The lessons that work on every system.
EVERYWHERE = [lesson for lesson in public_curriculum().lessons if lesson.name[:2] <= "11"]
#: A mistake is tested only in every `STEP`-th exercise.
STEP = 3


def platform() -> dict[str, object]:
    """Return what the course's code sees of this platform."""
    importable = []
    for name in ABSENT:
        with contextlib.suppress(ModuleNotFoundError):
            importable.append(import_in_a_module(name))
    return {
        "fork": hasattr(os, "fork"),
        "alarm": hasattr(signal, "setitimer") or hasattr(signal, "SIGUSR1"),
        "platform": sys.platform,
        "start": multiprocessing.get_start_method(),
        "encoding": locale.getencoding(),
        "printing": sys.stdout.encoding,
        "importable": importable,
    }


def import_in_a_module(name: str) -> str:
    """Run an import statement in this module, and return the name."""
    exec(f"import {name}", {"__package__": __package__})
    return name


def verdict(name: str, answer: object) -> str:
    """Run a check as a notebook's cell does, and return what a student reads."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            check(name, {name: answer})
    except CheckError as failure:
        return str(failure)
    return printed.getvalue()


def checks() -> dict[str, Any]:
    """Check the reference's answers for lessons 00 to 11 and a sample of mistakes."""
    right: dict[str, str] = {}
    wrong: dict[str, str] = {}
    for lesson in EVERYWHERE:
        for name in lesson.checked:
            entry = catalogue()[name]
            if isinstance(entry, PredictionCheck):
                right[name] = verdict(name, entry.answer)
                wrong[name] = verdict(name, entry.answer * 1000 + 7)
            elif isinstance(entry, ExerciseCheck):
                right[name] = verdict(name, entry.reference)
                if len(right) % STEP == 0 and entry.misconceptions:
                    mistake = min(entry.misconceptions, key=lambda mistake: crc32(mistake.name.encode()))
                    wrong[f"{name} {mistake.statement}"] = verdict(name, entry.with_mistakes(mistake))
    return {"right": right, "wrong": wrong}


def endless() -> str:
    """Run a check on code that never returns, and return its message."""
    local_backend.SECONDS = 0.3

    def attention_scores(query: object, key: object) -> object:
        while True:
            pass

    return verdict("attention_scores", attention_scores)


def command(*arguments: str) -> dict[str, object]:
    """Run `course` with standard output in the console's encoding. Return its exit code and output."""
    written, genuine = io.BytesIO(), sys.stdout
    console = sys.stdout = io.TextIOWrapper(written, encoding="cp1252")
    code: object = 0
    try:
        main(arguments)
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.stdout = genuine
        console.flush()
    return {"code": code or 0, "output": written.getvalue().decode("cp1252")}


def assemble(lessons: Path) -> list[str]:
    """Import every module that lessons 00 to 11 import, as their cells do, and return the modules' names."""
    imported: set[str] = set()
    for lesson in EVERYWHERE:
        cells = json.loads((lessons / lesson.name / f"{lesson.name}.ipynb").read_text(encoding="utf-8"))[
            "cells"
        ]
        for cell in cells:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and "course_lib" in source:
                names = {
                    line.split()[1] for line in source.splitlines() if line.startswith("from course_lib")
                }
                imported |= {import_module(name).__name__ for name in names}
    return sorted(imported)


def everything(lessons: Path) -> Mapping[str, object]:
    """Run all parts, and return their results."""
    parts: dict[str, Callable[[], object]] = {
        "platform": platform,
        "imported": lambda: assemble(lessons),
        "checks": checks,
        "endless": endless,
        "progress": lambda: command("progress", str(lessons)),
        "lab": lambda: command("lab", str(lessons), "--version"),
    }
    return {name: part() for name, part in parts.items()}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(everything(Path(sys.argv[1]))), encoding="utf-8")
