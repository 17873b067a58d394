"""Report how this machine confines students' code, and grade a small notebook as a test.

The exit code is 1 if students' code can't be confined or grading fails.
"""

import argparse
import contextlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import joblib
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from autograder.judge.job import Cell, Job, NotComputedError
from autograder.judge.lesson_context import LessonContext
from autograder.judge.notebook_run import run
from autograder.sandbox.archive import pack_files, whole_course
from autograder.sandbox.confinement import MECHANISMS, Confinement, probe, require
from autograder.sandbox.fork_server import ForkServer
from autograder.sandbox.limits import Limits
from course_lib.curriculum.course_file import CourseError

_STUDENTS_CELL = "import torch\n\ndef double(x):\n    return 2 * x\n\nprint(double(21))"
_LOCKED_CELL = "import torch\n\nassert double(torch.ones(2)).tolist() == [2.0, 2.0]"

_PACKAGES = ("torch", "nbgrader", "nbclient", "jupyter-client", "ipykernel", "pyseccomp", "SQLAlchemy")


def main() -> int:
    """Run `course doctor`, and return its exit code: 1 if a test fails, otherwise 0."""
    description = "Test the sandbox for students' code on this machine, and grade a notebook in it."
    argparse.ArgumentParser(prog="course doctor", description=description).parse_args()
    # This duplicates `command_line.create_console`, because that module imports nbgrader, and the doctor must
    # also run if nbgrader isn't installed.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    try:
        confinement = probe()
    except ValueError as error:
        console.print(f"[bold red]✗[/] {escape(str(error))}")
        return 1
    console.print(_mechanisms(confinement))
    console.print("\n[bold]Not covered[/]")
    for gap in confinement.gaps:
        console.print(f"  • {escape(gap)}")
    console.print(_machine())
    try:
        require(confinement, allow_unconfined=False)
        seconds = run_smoke_test(confinement)
    except CourseError as error:
        console.print(f"[bold red]✗[/] {escape(str(error))}")
        return 1
    console.print(f"[bold green]✓[/] Students' code is confined by {confinement.name}.")
    console.print(f"[bold green]✓[/] A notebook of two cells was graded in {seconds:.1f} s.")
    return 0


def run_smoke_test(confinement: Confinement) -> float:
    """Grade a notebook of two cells, a student's and a locked one, and return the time in seconds.

    The student's cell runs in a kernel with this confinement. Raises CourseError if grading fails or gives a
    wrong result.
    """
    cells = (
        Cell("students", _STUDENTS_CELL, judged=False, optional=False),
        Cell("locked", _LOCKED_CELL, judged=True, optional=False),
    )
    job = Job("smoke-test", cells, (), Limits(restarts=1))
    fork_server = ForkServer(confinement)
    fork_server.start()
    course = pack_files(whole_course())
    try:
        result = run(job, lambda _: LessonContext(course, {}, {}), fork_server)
        texts = [
            str(output.get("text") or output.get("evalue")) for cell in result.outputs for output in cell
        ]
        if texts != ["42\n"] or result.violations:
            found = "\n".join(dict.fromkeys([*result.violations, *texts, fork_server.log_tail()]))
            raise CourseError(
                "Grading a notebook of two cells failed. Expected the student's cell to print 42 and the "
                f"locked cell to pass, got:\n{found}"
            )
    except NotComputedError as error:
        raise CourseError(
            f"Grading a notebook of two cells failed: {error}\n{fork_server.log_tail()}"
        ) from None
    finally:
        os.close(course)
        fork_server.close()
    return result.seconds


def _mechanisms(confinement: Confinement) -> Table:
    table = Table("Mechanism", "On", "Test result", title="Confinement", title_justify="left")
    reasons = dict(confinement.reasons)
    works = {
        "bubblewrap": "Outside files, TCP, UDP, unix sockets and other processes can't be reached.",
        "landlock": f"Outside files can't be read, listed or written. ABI {confinement.landlock_abi}.",
        "seccomp": "Connections, and signalling or inspecting other processes, are denied.",
    }
    for name in MECHANISMS:
        table.add_row(name, "no" if name in reasons else "yes", escape(reasons.get(name, works[name])))
    return table


def _machine() -> Table:
    table = Table(show_header=False, title="\nMachine", title_justify="left")
    table.add_row("Python", f"{platform.python_version()} ({sys.executable})")
    for package in _PACKAGES:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            version = "not installed"
        table.add_row(package, version)
    version = "not installed"
    if shutil.which("bwrap"):
        said = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=False).stdout
        version = said.strip().removeprefix("bubblewrap ")
    table.add_row("bubblewrap", version)
    table.add_row("system", f"{platform.system()} {platform.release()} on {platform.machine()}")
    table.add_row("cores", f"{joblib.cpu_count()}")
    maximum = Limits().total_memory_bytes
    table.add_row("memory", f"{_gibibytes(_memory())}; one submission may use {_gibibytes(maximum)}")
    return table


def _memory() -> int:
    """Return this machine's memory in bytes, or the control group's limit if that is lower; 0 if unknown."""
    try:
        sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):  # Windows has no `sysconf`.
        return 0
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # cgroup v2 and v1
        with contextlib.suppress(OSError, ValueError):  # Without a limit, the file contains "max".
            sizes.append(int(Path("/sys/fs/cgroup", name).read_text(encoding="utf-8")))
    return min(sizes)


def _gibibytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count else "unknown"


if __name__ == "__main__":
    sys.exit(main())
