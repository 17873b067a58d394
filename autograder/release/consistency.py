"""Validate names in `course.toml`, misconceptions and the concept test, without running a notebook."""

import pkgutil
from collections.abc import Iterable
from pathlib import Path

from autograder.release.concept_test import QUESTIONS, load, miscalculated_options
from course_lib.checks.engine.misconceptions import MisconceptionError
from course_lib.checks.exercises.final_lab.hand_in import FileCheck
from course_lib.checks.exercises.registry import catalogue
from course_lib.curriculum import Exercise, HandIn, Lesson
from course_lib.curriculum.course_file import SOURCES, CourseError


def inconsistencies(lessons: Iterable[Lesson]) -> list[str]:
    """Return the problems found by comparing the entries of these lessons in `course.toml` with the checks.

    These include invalid misconceptions, such as one whose patch can't be applied.
    """
    known = catalogue()
    problems: list[str] = []
    for lesson in lessons:
        for name, entry in lesson.checked.items():
            location = f"{SOURCES}/course.toml, lesson {lesson.name}, {name}"
            if name not in known:
                problems.append(
                    f"{location}: course_lib.checks has no check with this name. It has: {', '.join(known)}"
                )
                continue
            check = known[name]
            if isinstance(entry, HandIn):
                if not isinstance(check, FileCheck):
                    problems.append(
                        f"{location}: the check with this name in course_lib.checks doesn't check a file"
                    )
                elif entry.file != check.file:
                    problems.append(
                        f"{location}, file: expected {check.file}, which the check reads, got {entry.file}"
                    )
            forbidden = entry.may_not_call if isinstance(entry, Exercise) else []
            problems += [
                f"{location}, may_not_call: there is no function {function!r}. Correct its spelling."
                for function in forbidden
                if not _exists(function)
            ]
            try:
                misconceptions = [misconception.name for misconception in check.misconceptions]
            except MisconceptionError as error:
                problems += str(error).splitlines()
                continue
            problems += [
                f"{location}, deductions: {mistake!r} is not a misconception of this exercise. "
                f"Its misconceptions are: {', '.join(misconceptions)}"
                for mistake in getattr(entry, "deductions", {})
                if mistake not in misconceptions
            ]
    return problems


def _exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        return False
    return True


def concept_test_problems(course: Path) -> list[str]:
    """Return the problems of a course's concept test, or an empty list if the course has none."""
    if not (course / SOURCES / QUESTIONS).exists():
        return []
    try:
        return miscalculated_options(load(course))
    except CourseError as error:
        return error.problems
