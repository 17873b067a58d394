"""The commands `course build` and `course check`, which is `python -m autograder.release.build --check`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from autograder.release.lessons import write_lessons
from course_lib.curriculum.course_file import LESSONS, CourseError

#: The course that this file belongs to.
COURSE = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `course build` or `course check`. Return the exit code: 0, or 1 if the course has problems."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if "--check" in arguments:
        parser = argparse.ArgumentParser(
            prog="course check",
            description="Check that lessons/ matches solutions/, that every solution passes, and that every "
            "stub fails. Nothing is written to lessons/.",
        )
        parser.add_argument("lessons", nargs="*", metavar="LESSON", help="only these lessons (default: all)")
    else:
        parser = argparse.ArgumentParser(
            prog="course build", description="Build lessons/ from the sources in solutions/."
        )
    # `course check` adds this option itself.
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--course", type=Path, default=COURSE, help="the course (default: this one)")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            # Import this module here, because it imports torch, which takes seconds.
            from autograder.release.validate import validate

            if problems := validate(options.course, options.lessons):
                raise CourseError(problems)
            checked = ", ".join(f"{LESSONS}/{name}" for name in options.lessons or [""])
            matches = "match their sources" if len(options.lessons) > 1 else "matches its sources"
            print(f"{checked} {matches}, every solution passes, and every stub fails.")
        else:
            changed = write_lessons(options.course)
            print("\n".join(f"wrote {name}" for name in changed) or f"{LESSONS}/ is up to date")
    except (CourseError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
