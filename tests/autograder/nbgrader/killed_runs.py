"""Grade a small course repeatedly, killing runs at numbered points. `test_interrupted_runs.py` starts this.

The argument is the course's folder. Each line of standard input is a trial: a JSON list of point numbers. A
run is killed at its n-th operation on a file or the gradebook. After the last kill of a trial, the run is
repeated to its end, and the resulting state is printed as JSON, with hashes in place of file contents.
"""

import hashlib
import importlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from nbgrader.apps import AutogradeApp
from sqlalchemy import event
from sqlalchemy.engine import Engine

from autograder.results.version import installed_version
from tests.autograder.nbgrader.classroom import Classroom
from tests.autograder.small_course import LESSON

# Import everything that a run needs up front, so that each run starts quickly, by a fork.
for module in (
    "torch",
    "autograder.nbgrader.install",
    "autograder.release.solution_notebook",
    "course_lib.checks",
):
    importlib.import_module(module)
installed_version()

EVENTS = {"os.remove", "os.mkdir", "os.rmdir", "os.rename", "os.chmod", "shutil.copyfile", "shutil.rmtree"}


class Points:
    """A counter of a run's operations, which kills the run at one of them."""

    def __init__(self, course: Path, last: int | None) -> None:
        self.course, self.last, self.number = str(course), last, 0
        self.writing = 0
        sys.addaudithook(self.audit)
        for name in ("before_cursor_execute", "commit"):
            event.listen(Engine, name, self.count, named=True)

    def count(self, *_: object, **__: object) -> None:
        """Count an operation, and kill the process if this is the operation to stop at."""
        self.number += 1
        if self.number == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Count an operation that changes a file of the course."""
        if name == "open":
            path, _, flags = arguments
            changes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        else:
            path, changes = (arguments or (None,))[0], name in EVENTS
        if changes and isinstance(path, str | Path) and str(path).startswith(self.course):
            self.count()


def run(course: Path, last: int | None) -> int:
    """Grade in a child process, which is killed at point `last` if one is given.

    Return the number of points that the run passed, or 0 if it was killed.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        points = Points(course, last)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.chdir(course / "autograder")
        try:
            AutogradeApp.launch_instance([LESSON])
        except SystemExit:
            pass
        finally:
            os.write(writer, str(points.number).encode())
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    assert bool(text) != os.WIFSIGNALED(status), "the run was killed at an unexpected point, or not at all"
    return int(text or 0)


def main() -> None:
    """Run the requested trials, and print one line of JSON for each."""
    course = Path(sys.argv[1])
    before = course.with_name("before")
    shutil.copytree(course, before)
    for line in sys.stdin:
        shutil.rmtree(course)
        shutil.copytree(before, course)
        for last in json.loads(line):
            run(course, last)
        passed = run(course, None)
        state = Classroom(course).state()
        text = json.dumps(state, default=lambda content: hashlib.sha256(content).hexdigest(), sort_keys=True)
        print(json.dumps({"passed": passed, "state": json.loads(text)}), flush=True)


if __name__ == "__main__":
    main()
