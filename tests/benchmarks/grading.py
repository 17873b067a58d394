"""Compare the time for grading a class with plain `nbgrader autograde` and with the course's version of it.

`python -m tests.benchmarks.grading [--students 20] [--plain-students 20] [--lesson 01-attention ...]`

The two alternate lesson by lesson, so that other load on the machine affects both alike. The class repeats
the five students of `autograder.example_class`. If plain nbgrader grades fewer students, its time is
extrapolated to all of them.
"""

import argparse
import os
import shutil
import tempfile
import time
from datetime import date
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook
from nbgrader.utils import is_solution
from rich.console import Console
from rich.table import Table

from autograder.demo import copy_course
from autograder.example_class import hand_in
from autograder.release.build import COURSE
from course_lib.curriculum import Lesson
from course_lib.curriculum.course_file import load_curriculum
from tests.nbgrader_command import nbgrader

#: The configuration of nbgrader's own converter, with the timeouts that the lessons need.
PLAIN = """
from nbgrader.apps import autogradeapp
from nbgrader.converters import Autograde
from nbgrader.preprocessors import Execute, SaveAutoGrades
autogradeapp.Autograde = Autograde
c.Autograde.autograde_preprocessors = [
    Execute, IgnorePattern, LimitOutput, SaveAutoGrades, AssignLatePenalties, CheckCellMetadata,
]
c.Execute.timeout = 300
c.Execute.iopub_timeout = 60
"""

#: The numbers of workers to compare.
WORKERS = (1, 2, 4)

#: The configuration that sets the number of workers. The default is one worker per processor.
OURS = "\nc.SandboxedExecute.workers = {workers}\n"


def main() -> None:
    """Grade the class, and print a table of the times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--students", type=int, default=20, help="how many students the class has")
    parser.add_argument("--plain-students", type=int, help="how many of them plain nbgrader grades")
    parser.add_argument("--lesson", action="append", help="only this lesson; may be given several times")
    chosen = parser.parse_args()
    few = min(chosen.plain_students or chosen.students, chosen.students)
    console = Console()
    table = Table(title=f"{date.today()}: {chosen.students} students, {os.cpu_count()} processors, seconds")
    columns = ("plain nbgrader", *(f"{workers} workers" for workers in WORKERS), "serial", "ratio")
    table.add_column("lesson")
    for column in columns:
        table.add_column(column, justify="right")
    sums = [0.0] * (len(WORKERS) + 2)
    with tempfile.TemporaryDirectory() as name:
        for lesson in load_curriculum(COURSE).lessons:
            if chosen.lesson and lesson.name not in chosen.lesson:
                continue
            plain, points, _ = grade(Path(name, "plain"), lesson, few, PLAIN)
            seconds = [plain * chosen.students / few]
            serial = 0.0
            for workers in WORKERS:
                ours, same_points, serial = grade(
                    Path(name, f"ours-{workers}"), lesson, chosen.students, OURS.format(workers=workers)
                )
                seconds.append(ours)
                different = {who for who in points if points[who] != same_points[who]}
                if different:
                    console.print(f"[red]{lesson.name}: points differ for {', '.join(sorted(different))}[/]")
            seconds.append(serial)
            sums = [one + more for one, more in zip(sums, seconds, strict=True)]
            table.add_row(lesson.name, *_cells(seconds))
            console.print(lesson.name, *_cells(seconds))
    table.add_section()
    table.add_row("all", *_cells(sums))
    console.print(table)
    graded = chosen.students * len(table.rows[:-1])
    for workers, seconds_taken in zip(WORKERS, sums[1:], strict=False):
        console.print(f"{workers} workers: {60 * graded / seconds_taken:.0f} submissions a minute")
    share = sums[-1] / graded
    console.print(
        f"Serial: {share:.3f} CPU seconds a submission, so at most {60 / share:.0f} submissions a minute, "
        f"however many workers. 2,000 students take at least {2000 * share / 60:.1f} minutes for a lesson "
        "whose results are stored."
    )
    if few < chosen.students:
        console.print(f"Plain nbgrader graded {few} students; its seconds are scaled to {chosen.students}.")


def grade(root: Path, lesson: Lesson, students: int, config: str) -> tuple[float, dict[str, float], float]:
    """Time `nbgrader autograde` in a fresh copy of the course.

    Return the seconds, each student's points, and the serial CPU seconds: the CPU time of a run that finds
    all results in the store, minus its start-up. Unlike wall-clock time, CPU time hardly depends on other
    load on the machine.
    """
    classroom = prepare_class(root, lesson, students)
    with (classroom / "nbgrader_config.py").open("a") as file:
        file.write(config)
    start = time.perf_counter()
    nbgrader(classroom, "autograde", lesson.name)
    seconds = time.perf_counter() - start
    serial = 0.0
    if config != PLAIN:
        for options, sign in (([], -1), (["--force"], 1)):
            start = _cpu_seconds_of_children()
            nbgrader(classroom, "autograde", lesson.name, *options)
            serial += sign * (_cpu_seconds_of_children() - start)
    with Gradebook(f"sqlite:///{classroom}/gradebook.db") as gradebook:
        points = {each.student.id: each.score for each in gradebook.assignment_submissions(lesson.name)}
    return seconds, points, serial


def prepare_class(root: Path, lesson: Lesson, students: int) -> Path:
    """Make a copy of the course in which a class has handed in a lesson. Return the grading folder."""
    shutil.rmtree(root, ignore_errors=True)
    copy_course(COURSE, root)
    classroom = root / "autograder"
    nbgrader(classroom, "generate_assignment", lesson.name)
    five = hand_in(root, lesson)
    for number in range(len(five), students):
        student = five[number % len(five)].student
        shutil.copytree(classroom / "submitted" / student, classroom / "submitted" / f"{student}{number:03d}")
        _make_another(
            classroom / "submitted" / f"{student}{number:03d}" / lesson.name / f"{lesson.name}.ipynb"
        )
    for too_many in five[students:]:
        shutil.rmtree(classroom / "submitted" / too_many.student)
    return classroom


def _cpu_seconds_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _make_another(path: Path) -> None:
    """Add a comment that makes the submission unique, because identical submissions run only once."""
    notebook = nbformat.read(path, as_version=4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code" and is_solution(cell))
    first.source += f"\n# {path.parent.parent.name}"
    nbformat.write(notebook, path)


def _cells(seconds: list[float]) -> list[str]:
    plain, *ours, serial = seconds
    return [f"{plain:.0f}", *(f"{each:.1f}" for each in ours), f"{serial:.1f}", f"{plain / ours[1]:.1f}x"]


if __name__ == "__main__":
    main()
