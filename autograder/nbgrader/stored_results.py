"""List, verify or prune the result store."""

import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

from nbgrader.coursedir import CourseDirectory
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from autograder.nbgrader.command_line import command_parser, counted, create_console, reporting_errors
from autograder.nbgrader.course_folder import CourseFolder
from autograder.nbgrader.preparation import Preparation
from autograder.results.store import Entry, ResultStore
from autograder.submissions.folder import released_notebooks

#: The age in seconds from which a temporary file in the store is no longer being written.
_WRITING_SECONDS = 3600


@reporting_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run `course results`, and return its exit code: 1 if it found a problem, otherwise 0."""
    parser = command_parser("results", __doc__)
    parser.add_argument("action", choices=["list", "verify", "prune"])
    parser.add_argument(
        "--older-than",
        type=float,
        metavar="DAYS",
        help="prune: delete only results that were stored more than DAYS days ago",
    )
    options = parser.parse_args(arguments)
    if options.older_than is not None and not options.older_than >= 0:
        parser.error(f"--older-than: expected 0 or more days, got {options.older_than:g}")
    console = create_console()
    course = CourseFolder(options.course)
    match options.action:
        case "list":
            return _list(console, course)
        case "verify":
            return _verify(console, course.execute.store)
        case _:
            return _prune(console, course, options.older_than)


def _list(console: Console, course: CourseFolder) -> int:
    """Print a table of the stored results by lesson.

    Current results are those that `nbgrader autograde` would still use.
    """
    store, directory = course.execute.store, course.directory()
    preparation = Preparation(directory, course.execute)
    rows: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0, 0, 0])
    for entry, about in _entries(store):
        lesson = entry.header.lesson if entry.header else "(damaged)"
        row = rows[lesson]
        row[0] += 1
        row[1] += _is_current(directory, preparation, entry)
        row[2] += about.st_size
        row[3] += entry.header.seconds if entry.header else 0
    table = Table("Lesson", "Results", "Current", "Size (MB)", "Time saved (min)", title=str(store.folder))
    for lesson, (count, current, size, seconds) in sorted(rows.items()):
        table.add_row(lesson, f"{count:.0f}", f"{current:.0f}", f"{size / 1e6:.1f}", f"{seconds / 60:.1f}")
    console.print(table if rows else f"There are no results in {store.folder}.")
    return 0


def _verify(console: Console, store: ResultStore) -> int:
    """Check every result against its checksum, and print the damaged ones.

    Return the exit code: 1 if any result is damaged, otherwise 0.
    """
    count = damaged = 0
    for entry, _ in _entries(store, verify=True):
        count += 1
        if entry.problem:
            damaged += 1
            console.print(f"[bold red]✗[/] {escape(str(entry.path))}: {escape(entry.problem)}")
    console.print(f"{counted(count, 'result')}, {damaged} damaged.")
    if damaged:
        console.print("Damaged results are never used. `course results prune` deletes them.")
    return int(damaged > 0)


def _prune(console: Console, course: CourseFolder, older_than: float | None) -> int:
    """Delete damaged results, and results of checks or limits that are no longer current.

    If `older_than` is given, only results that were stored more than that many days ago are deleted. Return
    the exit code: 1 if a file can't be deleted, otherwise 0.
    """
    deleted = size = failed = 0
    youngest = time.time() - (older_than or 0) * 86400
    directory = course.directory()
    preparation = Preparation(directory, course.execute)
    for entry, about in _entries(course.execute.store, verify=True):
        if about.st_mtime > youngest or _is_current(directory, preparation, entry):
            continue
        try:
            entry.path.unlink(missing_ok=True)
        except OSError as error:
            failed += 1
            console.print(f"[bold red]✗[/] {escape(str(error))}")
        else:
            deleted, size = deleted + 1, size + about.st_size
    console.print(f"Deleted {counted(deleted, 'result')}, {size / 1e6:.1f} MB. Grades don't depend on them.")
    return int(failed > 0)


def _entries(store: ResultStore, verify: bool = False) -> Iterator[tuple[Entry, os.stat_result]]:
    """Yield the store's entries with their status, except those that another process writes or deletes."""
    for entry in store.entries(verify):
        try:
            about = entry.path.lstat()
        except FileNotFoundError:
            continue
        if not entry.path.name.startswith(".") or time.time() - about.st_mtime > _WRITING_SECONDS:
            yield entry, about


def _is_current(directory: CourseDirectory, preparation: Preparation, entry: Entry) -> bool:
    if entry.header is None:
        return False
    lesson, depends_on = entry.header.lesson, entry.header.depends_on
    notebooks = released_notebooks(directory, lesson)
    return any(preparation.is_current(lesson, name, depends_on) for name in notebooks)


if __name__ == "__main__":
    sys.exit(main())
