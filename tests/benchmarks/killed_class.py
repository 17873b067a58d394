"""Compare grading that is killed twice, locally and on a Dask cluster, with uninterrupted grading.

`python -m tests.benchmarks.killed_class [--students 200] [--lesson 00-orientation]`

Each interrupted class is graded by three runs of `nbgrader autograde`. The first two are killed with SIGKILL,
after one third and after two thirds of the class; on the cluster, a worker is killed at the same times. The
exit code is 0 if all gradebooks and graded notebooks are the same.
"""

import argparse
import difflib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from pprint import pformat

from nbgrader.api import Gradebook
from rich.console import Console

from autograder.release.build import COURSE
from course_lib.curriculum.course_file import load_curriculum
from tests.benchmarks.grading import prepare_class
from tests.free_ports import free_ports

_BIN = Path(sys.executable).parent

#: The maximum number of students and files whose differences are printed.
_MAX_DIFFERENCES = 10

#: The maximum number of differing lines that are printed for each student or file.
_MAX_LINES = 20

#: The maximum number of characters of a line that are printed.
_MAX_COLUMNS = 300


class Cluster:
    """A Dask scheduler on this machine, and workers that run one notebook at a time."""

    def __init__(self, stack: ExitStack, workers: int) -> None:
        (port,) = free_ports(1)
        self.address = f"tcp://127.0.0.1:{port}"
        self._stack = stack
        self._folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        self._start("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        self._workers = [self._add_worker() for _ in range(workers)]

    def replace_worker(self) -> None:
        """Kill a worker, and start another one."""
        self._workers.pop(0).kill()
        self._workers.append(self._add_worker())

    def _add_worker(self) -> subprocess.Popen[bytes]:
        options = ("--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--death-timeout", "60")
        return self._start("worker", self.address, *options, "--no-dashboard")

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [_BIN / "dask", *command],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)
        return process


def main() -> int:
    """Grade the class three times, print the time of each run, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--students", type=int, default=200, help="the size of the class")
    parser.add_argument("--lesson", default="00-orientation")
    parser.add_argument("--workers", type=int, default=2, help="the number of workers in the cluster")
    chosen = parser.parse_args()
    console = Console()
    lesson = next(each for each in load_curriculum(COURSE).lessons if each.name == chosen.lesson)
    console.print(
        f"{date.today()}: {chosen.students} students in {lesson.name}, {os.cpu_count()} processors",
        highlight=False,
    )
    with tempfile.TemporaryDirectory() as name:
        calm = prepare_class(Path(name, "calm"), lesson, chosen.students)
        for other in ("local", "cluster"):
            shutil.copytree(calm.parent, Path(name, other))
        _report(console, "not killed", [_grade(calm, lesson.name)])
        expected = _outcome(calm, lesson.name)
        same = True
        with ExitStack() as stack:
            cluster = Cluster(stack, chosen.workers)
            for other, address in (("local", ""), ("cluster", cluster.address)):
                classroom = Path(name, other, "autograder")
                seconds = []
                for third in (1, 2):
                    with _killed_after(chosen.students * third // 3, classroom, address, lesson.name) as took:
                        seconds.append(took)
                        if address:
                            cluster.replace_worker()
                seconds.append(_grade(classroom, lesson.name, address))
                _report(console, f"{other}, killed twice", seconds)
                found = _outcome(classroom, lesson.name)
                different = sorted(key for key in found | expected if found.get(key) != expected.get(key))
                if different:
                    differing = f"{len(different)} of {len(found | expected)} students and files differ"
                    console.print(f"[red]{other}: {differing}[/]", highlight=False)
                for key in different[:_MAX_DIFFERENCES]:
                    _show_difference(console, key, calm, classroom, expected.get(key), found.get(key))
                same &= not different
    console.print(
        "All gradebooks and graded notebooks are the same." if same else "[red]The results differ.[/]"
    )
    return 0 if same else 1


def _start(classroom: Path, lesson: str, address: str) -> subprocess.Popen[bytes]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("COURSE_")}
    with (classroom / "log").open("ab") as log:
        return subprocess.Popen(
            [_BIN / "nbgrader", "autograde", lesson],
            cwd=classroom,
            env=variables | ({"COURSE_CLUSTER": address} if address else {}),
            stdout=log,
            stderr=log,
        )


def _grade(classroom: Path, lesson: str, address: str = "") -> float:
    """Grade the whole class, and return the duration in seconds."""
    start = time.monotonic()
    if _start(classroom, lesson, address).wait():
        raise SystemExit((classroom / "log").read_text(errors="replace")[-3000:])
    return time.monotonic() - start


@contextmanager
def _killed_after(submissions: int, classroom: Path, address: str, lesson: str) -> Iterator[float]:
    """Start a run, kill it when it has graded this many submissions, and yield its duration in seconds."""
    start = time.monotonic()
    run = _start(classroom, lesson, address)
    while len(list((classroom / "autograded").glob(f"*/{lesson}/{lesson}.ipynb"))) < submissions:
        if run.poll() is not None:
            raise SystemExit(
                f"The run ended before it was killed:\n{(classroom / 'log').read_text()[-3000:]}"
            )
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    run.wait()
    yield time.monotonic() - start


def _outcome(classroom: Path, lesson: str) -> dict[str, object]:
    """Return all grades, comments and penalties in the gradebook, and the hashes of the graded files."""
    with Gradebook(f"sqlite:///{classroom}/gradebook.db") as gradebook:
        rows: dict[str, object] = {
            submission.student.id: [
                (
                    notebook.late_submission_penalty,
                    sorted(
                        (each.name, each.auto_score, each.manual_score, each.needs_manual_grade)
                        for each in notebook.grades
                    ),
                    sorted((each.name, each.auto_comment, each.manual_comment) for each in notebook.comments),
                )
                for notebook in submission.notebooks
            ]
            for submission in gradebook.assignment_submissions(lesson)
        }
    files = {
        path.relative_to(classroom).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((classroom / "autograded").rglob("*"))
        if path.is_file()
    }
    return rows | files


def _show_difference(
    console: Console, key: str, calm: Path, classroom: Path, expected: object, found: object
) -> None:
    """Print the lines that differ in a file or in a student's grades, in the format of a unified diff."""
    console.print(f"[red]{key} differs[/]" if expected and found else f"[red]{key} is in one class only[/]")
    old, new = (
        (folder / key).read_text(errors="replace").splitlines()
        if (folder / key).is_file()
        else pformat(value, width=60).splitlines()
        for folder, value in ((calm, expected), (classroom, found))
    )
    lines = list(difflib.unified_diff(old, new, "not killed", "killed", n=0, lineterm=""))
    for line in lines[:_MAX_LINES]:
        console.print(f"  {line[:_MAX_COLUMNS]}", markup=False, highlight=False)
    if len(lines) > _MAX_LINES:
        console.print(f"  and {len(lines) - _MAX_LINES} more lines", highlight=False)


def _report(console: Console, run: str, seconds: list[float]) -> None:
    console.print(f"{run}: {' + '.join(f'{each:.0f}' for each in seconds)} s", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
