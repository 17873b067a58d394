"""The parts that a student writes, in the order in which they build on each other."""

from typing import Any

from course_lib import transformer
from course_lib.curriculum import public_curriculum
from course_lib.student.parts.notebook import PartsError

#: All parts that a run of the lab can use. A part has the name of its exercise and of its solution cell.
LESSONS = public_curriculum().parts


def lessons_through(number: int | None) -> dict[str, tuple[str, ...]]:
    """Return the lessons up to this one, or all. Raises PartsError if there is no such lesson."""
    last = public_curriculum().lessons[-1].number
    if number is None:
        return LESSONS
    if not 1 <= number <= last:
        raise PartsError(f"lesson {number} has no parts; choose a lesson from 1 to {last}")
    return {lesson: parts for lesson, parts in LESSONS.items() if int(lesson[:2]) <= number}


def reference(exercise: str) -> Any:
    """Return the reference's function or class of an exercise."""
    return getattr(transformer, exercise)
