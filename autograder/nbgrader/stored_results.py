"""Delete damaged and outdated results from the result store."""

import sys
import time
from collections.abc import Sequence

from rich.markup import escape

from autograder.nbgrader.command_line import command_parser, counted, create_console, reporting_errors
from autograder.nbgrader.course_folder import CourseFolder
from autograder.nbgrader.preparation import Preparation
from autograder.submissions.folder import released_notebooks

#: A temporary file in the store that is older than this, in seconds, is no longer being written.
_WRITING_SECONDS = 3600


@reporting_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run `course results prune`, and return its exit code: 1 after an error, otherwise 0.

    It is an error if a file can't be deleted, for example.

    A result is deleted if it is damaged, or if its checks or limits are no longer current.
    """
    parser = command_parser("results", __doc__)
    parser.add_argument("action", choices=["prune"])
    course = CourseFolder(parser.parse_args(arguments).course)
    console, directory = create_console(), course.directory()
    preparation = Preparation(directory, course.execute)
    deleted = size = failed = 0
    started = time.time()
    for path, header in course.execute.store.entries():
        if header is not None and any(
            preparation.is_current(header.lesson, name, header.depends_on)
            for name in released_notebooks(directory, header.lesson)
        ):
            continue
        try:
            about = path.lstat()
            # Another process may just have replaced a damaged result, or may be writing a temporary file.
            last = started - _WRITING_SECONDS if path.name.startswith(".") else started
            if about.st_mtime > last:
                continue
            path.unlink()
        except FileNotFoundError:  # Another process has deleted it.
            continue
        except OSError as error:
            failed += 1
            console.print(f"[bold red]✗[/] {escape(str(error))}")
        else:
            deleted, size = deleted + 1, size + about.st_size
    console.print(f"Deleted {counted(deleted, 'result')}, {size / 1e6:.1f} MB. Grades don't depend on them.")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
