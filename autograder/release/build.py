"""Build the lessons from their sources, or validate them: `python -m autograder.release.build [--check]`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from autograder.release.lessons import write_lessons
from course_lib.curriculum.course_file import LESSONS, CourseError

#: The course that this file belongs to.
COURSE = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `course build`, and return its exit code: 0, or 1 if the course has problems."""
    arguments = sys.argv[1:] if arguments is None else arguments
    command = "course check" if "--check" in arguments else "course build"
    parser = argparse.ArgumentParser(prog=command, description=__doc__)
    parser.add_argument("--check", action="store_true", help="validate the course; write nothing to lessons/")
    parser.add_argument("--course", type=Path, default=COURSE, help="the course (default: this one)")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            # Import these modules here, because they import torch, which takes seconds.
            from autograder.release.validate import validate
            from course_lib.checks.engine.misconceptions import MisconceptionError

            try:
                problems = validate(options.course)
            except MisconceptionError as error:
                raise CourseError(str(error)) from None
            if problems:
                raise CourseError(problems)
            print(f"{LESSONS}/ matches its sources, every solution passes, and every stub fails.")
        else:
            changed = write_lessons(options.course)
            print("\n".join(f"wrote {name}" for name in changed) or f"{LESSONS}/ is up to date")
    except (CourseError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
