"""Measure how long each lesson's solution notebook takes: `python -m tests.benchmarks.lessons`."""

import os
import time

import nbformat
from nbclient import NotebookClient
from rich.console import Console
from rich.table import Table

from autograder.example_class import example_files
from autograder.release.build import COURSE
from autograder.release.lessons import released
from autograder.release.solutions import refresh
from course_lib.curriculum.course_file import SOURCES, load_curriculum


def main() -> None:
    """Print a table with the time of each lesson and the total."""
    if problems := refresh(COURSE):
        raise SystemExit("\n".join(problems))
    table = Table(title=f"Seconds for a solution notebook; {os.cpu_count()} cores")
    table.add_column("lesson")
    table.add_column("seconds", justify="right")
    total = 0.0
    with released(COURSE) as releases:
        for lesson in load_curriculum(COURSE).lessons:
            notebook = nbformat.read(COURSE / SOURCES / lesson.name / f"{lesson.name}.ipynb", as_version=4)
            folder = releases / lesson.name
            for name, content in example_files(lesson).items():
                (folder / name).write_bytes(content)
            began = time.perf_counter()
            NotebookClient(
                notebook,
                timeout=600,
                extra_arguments=["--log-level=40"],
                resources={"metadata": {"path": str(folder)}},
            ).execute()
            seconds = time.perf_counter() - began
            total += seconds
            table.add_row(lesson.name, f"{seconds:.1f}")
    table.add_row("all", f"{total:.1f}")
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
