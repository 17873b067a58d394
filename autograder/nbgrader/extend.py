"""Extend a lesson's deadline for one student.

The extension counts from the class's deadline, and replaces any earlier one. It can be granted before or
after the student hands in.
"""

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta

from nbgrader.api import Gradebook, MissingEntry

from autograder.nbgrader.command_line import command_parser, reporting_errors
from autograder.nbgrader.course_folder import CourseFolder
from autograder.nbgrader.gradebook import unknown_entry
from course_lib.curriculum.course_file import CourseError

#: The units of time that the options use, in minutes.
_MINUTES = {"days": 24 * 60, "hours": 60, "minutes": 1}

#: The maximum extension in days. Much larger extensions would lead to dates that Python can't represent.
_MAX_DAYS = 3650


def extend(gradebook: Gradebook, lesson: str, student: str, time: timedelta) -> tuple[datetime, datetime]:
    """Move a student's deadline to `time` after the class's, and return the old and the new deadline in UTC.

    Raises CourseError if the gradebook has no such student, or if the lesson isn't in it, has no deadline or
    was never released.
    """
    try:
        assignment = gradebook.find_assignment(lesson)
    except MissingEntry:
        raise unknown_entry("lesson", lesson, (each.name for each in gradebook.assignments)) from None
    try:
        gradebook.find_student(student)
    except MissingEntry:
        raise unknown_entry("student", student, (each.id for each in gradebook.students)) from None
    if assignment.duedate is None:
        raise CourseError(
            f"{lesson} has no deadline to extend. Set one with `nbgrader db assignment add {lesson} "
            '--duedate="2026-11-23 18:00 UTC"`.'
        )
    # Extending an unreleased lesson would prevent its release: an extension creates a submission, and
    # nbgrader can't add cells to a lesson that has a submission.
    if not assignment.notebooks:
        raise CourseError(
            f"{lesson} has not been generated. Run `nbgrader generate_assignment {lesson}` first."
        )
    try:
        submission = gradebook.find_submission(lesson, student)
    except MissingEntry:
        submission = gradebook.add_submission(lesson, student)
        for notebook in submission.notebooks:
            for grade in notebook.grades:
                grade.needs_manual_grade = False  # There is no answer to grade yet.
    old = submission.duedate
    submission.extension = time
    new = submission.duedate
    gradebook.db.commit()
    return old, new


@reporting_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run `course extend`, and return its exit code: 1 if the deadline can't be extended, otherwise 0."""
    parser = command_parser("extend", __doc__)
    parser.add_argument("lesson", help="the lesson, such as 01-attention")
    parser.add_argument("student", help="the student's id in the gradebook")
    for unit in _MINUTES:
        parser.add_argument(f"--{unit}", type=int, default=0, metavar="N", help=f"add N {unit}")
    options = parser.parse_args(arguments)
    given = {unit: getattr(options, unit) for unit in _MINUTES}
    minutes = sum(number * _MINUTES[unit] for unit, number in given.items())
    if min(given.values()) < 0 or not 0 < minutes <= _MAX_DAYS * _MINUTES["days"]:
        found = ", ".join(f"{number} {unit}" for unit, number in given.items())
        raise CourseError(f"expected a time from 1 minute to {_MAX_DAYS} days, such as --days 2; got {found}")
    with CourseFolder(options.course).gradebook() as gradebook:
        old, new = extend(gradebook, options.lesson, options.student, timedelta(minutes=minutes))
        submission = gradebook.find_submission(options.lesson, options.student)
        print(
            f"{options.student} has until {new:%Y-%m-%d %H:%M} UTC for {options.lesson}, "
            f"instead of {old:%Y-%m-%d %H:%M} UTC."
        )
        if submission.late_submission_penalty:
            print(f"Run `nbgrader generate_feedback {options.lesson}` to compute the late penalty again.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
