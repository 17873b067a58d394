"""Show your progress, read from the saved notebooks. Nothing is executed."""

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from course_lib.student.progress import ProgressError, nearest_lessons, read_lessons
from course_lib.student.progress.start_page import summary, terminal_table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 on success, 1 after an error, which is printed."""
    parser = argparse.ArgumentParser(prog="course progress", description=__doc__)
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        help="the lessons' folder (default: lessons, otherwise this folder or its parent)",
    )
    options = parser.parse_args(arguments)
    try:
        lessons = read_lessons(options.folder or nearest_lessons())
        if isinstance(sys.stdout, io.TextIOWrapper):
            # On Windows, the encoding of a file or a pipe may lack ✓.
            sys.stdout.reconfigure(errors="replace")
        console = Console(highlight=False)
        console.print(terminal_table(lessons))
        console.print(summary(lessons))
    except (ProgressError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
