"""Open and read a course's gradebook, with messages for errors that an instructor can correct."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nbgrader.api import BaseCell, Comment, Grade, Gradebook, Student, SubmittedAssignment, SubmittedNotebook
from nbgrader.coursedir import CourseDirectory
from sqlalchemy import make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError

from course_lib.curriculum.course_file import CourseError


def gradebook_file(url: str) -> Path | None:
    """Return the file of a gradebook, or None if its database is on a server or in memory."""
    address = make_url(url)
    file = address.database if address.get_backend_name() == "sqlite" else None
    return Path(file) if file and file != ":memory:" else None


def open_gradebook(course: CourseDirectory, create: bool = False) -> Gradebook:
    """Open a course's gradebook, and return it. The caller must close it.

    With `create`, a gradebook file that doesn't exist is created. Without it, raises CourseError if there is
    no such file, because nothing has been released yet. Also raises CourseError if the gradebook's address is
    not valid, or if its database can't be used.
    """
    try:
        file = gradebook_file(course.db_url)
        if create or file is None or file.exists():
            return Gradebook(course.db_url, course.course_id)
    except DBAPIError as error:
        raise CourseError(error_message(error)) from None
    except (ArgumentError, ImportError, ValueError) as error:
        # Don't repeat the address in the message, because an address may contain a password.
        raise CourseError(
            f"the gradebook's address is not valid: {error}. Set COURSE_GRADEBOOK to an address such as "
            "sqlite:////folder/gradebook.db or postgresql+psycopg://user@host/database."
        ) from None
    raise CourseError(
        f"there is no gradebook yet at {file}. `nbgrader generate_assignment LESSON` creates it."
    )


def error_message(error: Exception) -> str:
    """Return the text of an error.

    For a database error, it contains the driver's message but not the SQL statement.
    """
    if not isinstance(error, DBAPIError):
        return str(error)
    cause = " ".join(str(error.orig).split())
    return f"the gradebook cannot be used: {cause}. Check the database and its address, COURSE_GRADEBOOK"


def unknown_entry(kind: str, name: str, known: Iterable[str]) -> CourseError:
    """Return the error for a lesson or student that isn't in the gradebook, with a list of those that are."""
    return CourseError(f"the gradebook has no {kind} {name!r}; it has: {', '.join(sorted(known)) or 'none'}")


def display_name(student: Student) -> str:
    """Return a student's first and last name, or the id if the gradebook has neither."""
    return " ".join(filter(None, [student.first_name, student.last_name])) or str(student.id)


def points_after_penalty(points: float, penalty: float | None) -> float:
    """Return the points of a submission after its late penalty, at least 0."""
    return round(max(0.0, points - (penalty or 0.0)), 9)  # 1 - 0.7 would be 0.30000000000000004.


def has_points(submission: SubmittedAssignment) -> bool:
    """Return whether any cell has points.

    A submission has none if nothing was handed in, or if its grading hasn't finished.
    """
    return any(
        grade.auto_score is not None or grade.manual_score is not None
        for notebook in submission.notebooks
        for grade in notebook.grades
    )


def by_cell(
    gradebook: Gradebook, notebook: SubmittedNotebook, kind: type[Grade] | type[Comment]
) -> dict[str, Any]:
    """Return a notebook's grades or comments, keyed by cell name, using a single query."""
    query = select(BaseCell.name, kind).join(kind.cell).where(kind.notebook_id == notebook.id)
    return dict(gradebook.db.execute(query).all())
