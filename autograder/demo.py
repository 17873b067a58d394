"""Grade an example class and train a translator with the usual commands: `python -m autograder.demo`.

Everything is written to `runs/demo`, which is deleted first. The instructor's own gradebook and submissions
are not touched.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import nbformat
from nbgrader.api import Grade, Gradebook
from rich.console import Console
from rich.table import Table

from autograder.example_class import ExampleSubmission, example_lesson, hand_in
from autograder.graded_notebooks.feedback import CHECK_ERROR
from autograder.release.build import COURSE
from course_lib.curriculum import Lesson
from course_lib.curriculum.course_file import SOURCES, CourseError, load_curriculum

#: The symbols with which a check's verdict begins if the answer is not correct.
NOT_CORRECT = ("✗", "○")


def main() -> int:
    """Run all steps of the demo, and return 0 or the exit code of the first command that fails.

    The exit code is 1 if the lessons' sources have problems.
    """
    description = "Grade an example class and train a translator, in runs/demo. It takes a few minutes."
    argparse.ArgumentParser(prog="course demo", description=description).parse_args()
    console = Console()
    folder = COURSE / "runs" / "demo"
    try:
        shutil.rmtree(folder, ignore_errors=True)
        play_class(console, COURSE, folder / "class")
        _train(console, folder / "translation")
        _print_where_to_look(console, folder)
    except subprocess.CalledProcessError as failed:
        line = " ".join(failed.cmd)
        console.print(f"\n[bold red]The demo failed:[/] `{line}` ended with exit code {failed.returncode}")
        return failed.returncode
    except CourseError as error:
        console.print(f"\n[bold red]The lessons' sources have problems:[/]\n{error}", highlight=False)
        return 1
    return 0


def copy_course(course: Path, into: Path) -> None:
    """Copy the files that grading needs from `course` to `into`: the sources and nbgrader's configuration.

    Notebooks are not copied. `into` must not contain `solutions/` or `autograder/` yet.
    """
    shutil.copytree(
        course / SOURCES, into / SOURCES, ignore=shutil.ignore_patterns("*.ipynb", ".ipynb_checkpoints")
    )
    (into / "autograder").mkdir()
    shutil.copyfile(course / "autograder" / "nbgrader_config.py", into / "autograder" / "nbgrader_config.py")


def play_class(console: Console, course: Path, into: Path) -> None:
    """Copy a course to `into`, and run an example class there, from a lesson's release to the class report.

    Raises CalledProcessError if a command fails, or CourseError if the lessons' sources have problems.
    """
    copy_course(course, into)
    lesson = example_lesson(load_curriculum(into))
    grading = into / "autograder"

    console.rule(f"[bold]A class does lesson {lesson.name}")
    console.print("The instructor works in the folder of nbgrader_config.py, and releases the lesson:")
    _step(console, grading, "nbgrader", "generate_assignment", lesson.name)
    submissions = hand_in(into, lesson)
    console.print(f"{len(submissions)} students hand in their notebooks, which are graded:")
    _step(console, grading, "nbgrader", "autograde", lesson.name)
    console.print("Each student gets a page with points, verdicts and pictures, but no hidden tests:")
    _step(console, grading, "nbgrader", "generate_feedback", lesson.name)
    console.print("The scores are exported for the examinations office:")
    _step(console, grading, "nbgrader", "export", "--to", "grades.csv")
    console.print("The class report shows the scores and the most common mistakes:")
    exporter = "--exporter=autograder.reports.class_report.ClassReport"
    _step(console, grading, "nbgrader", "export", exporter, "--to", "report.html")
    console.print("\nWhat each student did, and the first problem that the checks found:")
    _print_verdicts(console, grading, lesson, submissions)
    console.print(score_table(grading, lesson, submissions))
    console.print("A dot marks an answer that must be graded by hand, with Formgrader in JupyterLab.\n")


def _train(console: Console, folder: Path) -> None:
    console.rule(
        "[bold]Two processes train a German-English translator on the captions that come with the course"
    )
    command = "torchrun --nproc-per-node=2 -m course_lib.translation.train captions"
    _step(console, COURSE, *command.split(), f"run_folder={folder.relative_to(COURSE)}", shows_output=True)


def _print_where_to_look(console: Console, folder: Path) -> None:
    console.rule("[bold]Where to look")
    shown = folder.relative_to(COURSE)
    pages = sorted((folder / "class" / "autograder" / "feedback").rglob("*.html"))
    lines = [
        f"Scores of the class: {shown}/class/autograder/grades.csv",
        f"Report on the class: {shown}/class/autograder/report.html",
        *(f"Feedback:            {page.relative_to(COURSE)}" for page in pages),
        f"To grade by hand:    cd {shown}/class/autograder && jupyter lab --notebook-dir=..",
        f"Translations:        {shown}/translation/translations.txt",
        f"Losses and speed:    {shown}/translation/metrics.jsonl",
        "Next: `make lab` opens the lessons. README.md describes everything else.",
    ]
    console.print("\n".join(lines), highlight=False, soft_wrap=True)


def _step(console: Console, folder: Path, *command: str, shows_output: bool = False) -> None:
    """Run a command in a folder. Its output is shown only if it fails or if `shows_output` is true."""
    line = " ".join(command)
    console.print(f"  [bold cyan]$ {line}[/]", highlight=False, soft_wrap=True)
    environment = {key: value for key, value in os.environ.items() if key != "COURSE_GRADEBOOK"}
    environment.setdefault("OMP_NUM_THREADS", "1")  # If it isn't set, torchrun sets it and prints a warning.
    output = None if shows_output else subprocess.PIPE
    start = time.perf_counter()
    # Show no status line if the command writes to the terminal, where the two would collide.
    with nullcontext() if shows_output else console.status(f"{line} ..."):
        done = subprocess.run(
            command,
            executable=Path(sys.executable).with_name(command[0]),
            cwd=folder,
            check=False,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            text=True,
        )
    if done.returncode != 0:
        console.print(done.stdout or "", markup=False, highlight=False)
        done.check_returncode()
    console.print(f"    [dim]{time.perf_counter() - start:.0f} s[/]", highlight=False)


def score_table(grading: Path, lesson: Lesson, submissions: Sequence[ExampleSubmission]) -> Table:
    """Return a table of the scores in the gradebook: a column per student, a row per graded cell, and sums.

    `grading` is the folder of the gradebook. A dot marks an answer that must be graded by hand.
    """
    table = Table(title=f"\n{lesson.title}: points", title_justify="left")
    table.add_column("")
    table.add_column("of", justify="right")
    grades: list[dict[str, Grade]] = []
    with Gradebook(f"sqlite:///{grading}/gradebook.db") as gradebook:
        for submission in submissions:
            table.add_column(submission.student, justify="right")
            graded = gradebook.find_submission_notebook(lesson.name, lesson.name, submission.student)
            grades.append({grade.name: grade for grade in graded.grades})
        for name, points in lesson.points.items():
            cells = ("·" if given[name].needs_manual_grade else f"{given[name].score:g}" for given in grades)
            table.add_row(name.removeprefix("check_"), f"{points:g}", *cells)
        sums = (f"{sum(grade.score for grade in given.values()):g}" for given in grades)
        table.add_section()
        table.add_row("score", f"{sum(lesson.points.values()):g}", *sums, style="bold")
    return table


def _print_verdicts(
    console: Console, grading: Path, lesson: Lesson, submissions: Sequence[ExampleSubmission]
) -> None:
    for submission in submissions:
        notebook = grading / "autograded" / submission.student / lesson.name / f"{lesson.name}.ipynb"
        console.print(f"  [bold]{submission.student}[/] {submission.did}", highlight=False, soft_wrap=True)
        console.print(f"    {first_verdict(notebook)}", markup=False, highlight=False, soft_wrap=True)


def first_verdict(notebook: Path) -> str:
    """Return the first line of the first failed check's message, or a line saying that all are correct."""
    for cell in nbformat.read(notebook, as_version=4).cells:
        if not cell.id.startswith("check_"):
            continue
        for output in cell.outputs:
            failed = output.output_type == "error"
            text = f"{output.ename}: {output.evalue}" if failed else output.get("text", "")
            first_line = text.removeprefix(f"{CHECK_ERROR}: ").partition("\n")[0]
            if failed or first_line.startswith(NOT_CORRECT):
                return first_line
    return "✓ all correct"


if __name__ == "__main__":
    sys.exit(main())
