"""Replacements for parts of `nbgrader zip_collect` and `nbgrader db student import`.

`install.install` installs them.
"""

import csv
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nbgrader.apps.dbapp import DbStudentImportApp
from nbgrader.apps.zipcollectapp import ZipCollectApp

from autograder.nbgrader.downloads import read_prefixes, write_prefixes
from autograder.nbgrader.replacement import FolderReplacement, owner, require_writable

_extract_archive_files = ZipCollectApp.extract_archive_files
_transfer_files = ZipCollectApp._transfer_files
_start_import = DbStudentImportApp.start

#: The maximum number of problems that are listed for a roster.
_MAX_PROBLEMS = 10

#: The length of nbgrader's columns, which PostgreSQL enforces and SQLite doesn't.
_MAX_CHARACTERS = 128


def extract_archive_files(app: ZipCollectApp) -> None:
    """Unpack the downloads.

    Exit with code 1 if there are none, or if another account owns the folders and doesn't share them.
    """
    archive, extracted = (
        Path(app._format_collect_path(folder)) for folder in (app.archive_directory, app.extracted_directory)
    )
    try:
        if not archive.is_dir() and not extracted.is_dir():
            app.fail(f"There is no folder {archive}. Put the downloads there, or correct the lesson's name.")
        if archive.is_dir() and not os.access(archive, os.R_OK | os.X_OK):
            raise PermissionError(
                f"{archive} belongs to {owner(archive)}, who can share it: see 'Several graders' in the "
                "instructor's guide."
            )
        require_writable(extracted)
        _extract_archive_files(app)
    except PermissionError as error:
        app.fail(f"Nothing was collected: {error}")


def transfer_files(app: ZipCollectApp, collected: Mapping[str, Any]) -> None:
    """Copy each student's collected files into `submitted/`. Exit with code 1 if anything was left out.

    nbgrader itself would end with exit code 0. Without --force, it would stop at the first student who has
    a submission already; here, that student is reported, and the others are collected. With --force, it
    deletes each earlier submission before it writes the new one; here, the earlier submission is restored if
    writing fails, and an incomplete new one is deleted. The prefixes of the collected notebooks are kept,
    because feedback is returned under the same names.
    """
    failed = []
    for student, files in collected.items():
        course = app.coursedir
        path = course.format_path(course.submitted_directory, student, course.assignment_id)
        earlier = FolderReplacement(Path(path))
        try:
            earlier.recover()
            require_writable(Path(path))
            if not app.force and os.path.isdir(path) and os.listdir(path):
                raise FileExistsError(f"{path} contains an earlier submission. To replace it, add --force.")
            with earlier.replacing():
                _transfer_files(app, {student: files})
        except OSError as error:
            app.log.error("%s: not collected: %s", student, error)
            failed.append(student)
    folder = Path(app._format_collect_path(app.extracted_directory)).parent
    prefixes = app.collector_plugin_inst.prefixes
    try:
        new = {student: prefix for student, prefix in prefixes.items() if student not in failed}
        write_prefixes(folder, read_prefixes(folder) | new)
    except (OSError, ValueError) as error:
        app.fail(
            "Submissions were collected, but the names of the downloaded files were not saved, so "
            f"feedback can't be returned: {error}. Correct this, and run the command again with --force."
        )
    left_out = app.extractor_plugin_inst.left_out + app.collector_plugin_inst.left_out
    if failed:
        app.fail(f"{len(failed)} of {len(collected)} students were not collected: {', '.join(failed)}")
    if left_out:
        app.fail(f"Uploads that are missing or were left out: {left_out}. See the warnings above.")


def import_students(app: DbStudentImportApp) -> None:
    """Import students from a CSV file. If it has problems, list them, import nobody and exit with code 1.

    nbgrader itself would import the rows up to the first error. If a student had several rows, it would keep
    the last one.
    """
    if len(app.extra_args) != 1 or not Path(app.extra_args[0]).is_file():
        _start_import(app)  # nbgrader reports the problem.
        return
    path = app.extra_args[0]
    rows: list[list[str]] = []
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file, strict=True))
        problems = list(_roster_problems(rows, is_limited=not app.coursedir.db_url.startswith("sqlite")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        problems = [f"it is not a CSV file in UTF-8 ({error})"]
    if problems:
        more = len(problems) - _MAX_PROBLEMS
        listed = [*problems[:_MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
        app.fail(
            "No student was imported from %s. Correct these problems first:%s",
            path,
            "".join(f"\n  {problem}" for problem in listed),
        )
    # Import a copy without the byte order mark that Excel writes: nbgrader would read the mark as part
    # of the first column's name.
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="", suffix=".csv") as copy:
        csv.writer(copy).writerows(rows)
        copy.flush()
        app.extra_args = [copy.name]
        _start_import(app)


def _roster_problems(rows: Sequence[Sequence[str]], is_limited: bool) -> Iterator[str]:
    """Yield the problems with a roster's rows. `is_limited` is true if the database limits text lengths."""
    header = [name.strip() for name in rows[0]] if rows else []
    if "id" not in header:
        yield f"row 1: expected column names separated by commas, including id; found {','.join(header)!r}"
        return
    if repeated := sorted({name for name in header if header.count(name) > 1}):
        yield f"row 1: the column {', '.join(repeated)} occurs more than once"
        return
    seen: dict[tuple[str, str], tuple[int, Sequence[str]]] = {}
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        cells = dict(zip(header, row, strict=False))
        student = cells["id"] if len(row) == len(header) else ""
        if len(row) != len(header):
            yield f"row {number}: expected {len(header)} values, found {len(row)}"
        elif not student or student != student.strip() or "/" in student or student in (".", ".."):
            yield f"row {number}: expected an id without a slash or spaces around it, found {student!r}"
        elif is_limited and any(len(cell) > _MAX_CHARACTERS for cell in row):
            yield f"row {number}: a value has more than {_MAX_CHARACTERS} characters, the database's limit"
        else:
            for column in ("id", "email", "lms_user_id"):
                if value := cells.get(column):
                    first, same = seen.setdefault((column, value), (number, row))
                    if list(same) != list(row):
                        yield f"rows {first} and {number}: different students have the {column} {value!r}"
                        break
