"""Measure what a class has learned, using the pre-test, the post-test and the students' logs."""

import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from autograder.nbgrader.command_line import command_parser, reporting_errors
from autograder.nbgrader.course_folder import CourseFolder
from autograder.release.concept_test import load, write_tests
from autograder.reports.class_report import as_csv
from autograder.reports.learning.figures import figures
from autograder.reports.learning.page import learning_page
from autograder.reports.learning.records import LearningRecords, read_learning
from course_lib.atomic_files import atomic_write_text


@reporting_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run `course learning`, and return its exit code: 1 if it fails, otherwise 0."""
    parser = command_parser("learning", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write-tests", help="write the notebooks of the pre-test and the post-test")
    commands.add_parser("report", help="write learning.html, and its tables to learning/")
    export = commands.add_parser("export", help="write answers and attempts without names, as CSV files")
    export.add_argument("folder", type=Path, help="a folder for the files")
    options = parser.parse_args(arguments)
    course = CourseFolder(options.course)
    test = load(Path(course.directory().root))
    if options.command == "write-tests":
        pre, post = write_tests(test, course.folder / "concept_tests")
        print(f"Wrote {pre}, for students to fill in before the course,\nand {post}, to fill in afterwards.")
        return 0
    records = read_learning(course, test)
    print(*records.notes, sep="\n", end="\n" if records.notes else "", file=sys.stderr)
    if options.command == "report":
        found = figures(test, records)
        folder, tables = course.folder / "learning", vars(found)
        page = learning_page(test, records, found, course.directory().course_id)
        atomic_write_text(folder.with_suffix(".html"), page)
        print(f"Wrote {folder.with_suffix('.html')}")
    else:
        folder, tables = options.folder, anonymous(records)
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        atomic_write_text(folder / f"{name}.csv", as_csv(table))
    print(f"Wrote {len(tables)} tables to {folder}")
    return 0


def anonymous(records: LearningRecords) -> dict[str, pd.DataFrame]:
    """Return tables of the answers and logged runs, with random identifiers instead of the students' names.

    The tables contain no times or code, and their rows are sorted by identifier. Each call draws new
    identifiers, and their mapping to students is not stored.
    """
    students = {run.student for run in records.logged}.union(*records.answers.values())
    identifier = {student: secrets.token_hex(8) for student in students}
    answers = [
        (identifier[student], test, question, chosen or "none")
        for test, by_student in records.answers.items()
        for student, found in by_student.items()
        for question, chosen in found.items()
    ]
    attempts = [
        (identifier[run.student], run.lesson, run.exercise, run.verdict, "; ".join(run.misconceptions))
        for run in records.logged
    ]
    tables = {
        "answers": pd.DataFrame(answers, columns=["student", "test", "question", "chosen"]),
        "attempts": pd.DataFrame(
            attempts, columns=["student", "lesson", "check", "verdict", "misconceptions"]
        ),
    }
    tables["attempts"]["attempt"] = tables["attempts"].groupby(["student", "check"]).cumcount() + 1
    return {name: table.sort_values("student", kind="stable") for name, table in tables.items()}


if __name__ == "__main__":
    sys.exit(main())
