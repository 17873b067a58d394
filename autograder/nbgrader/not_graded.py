"""The list of submissions that could not be graded, and why: `autograder/not_graded.json`.

It holds a reason for each lesson and student. A student's entry goes when the submission is graded.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from course_lib.atomic_files import atomic_write_text

NAME = "not_graded.json"

_Reasons = TypeAdapter(dict[str, dict[str, str]])


def load_not_graded(desk: Path) -> dict[str, dict[str, str]]:
    """Read the list in the folder of nbgrader_config.py: reasons by lesson, then by student.

    One that is damaged is begun anew.
    """
    path = desk / NAME
    if not path.is_file():
        return {}
    try:
        return _Reasons.validate_json(path.read_bytes())
    except ValidationError:
        _save(desk, {})
        return {}


def note_not_graded(desk: Path, lesson: str, student: str, reason: str) -> None:
    """Write down why a submission was not graded."""
    listed = load_not_graded(desk)
    listed.setdefault(lesson, {})[student] = reason
    _save(desk, listed)


def forget_not_graded(desk: Path, gone: Iterable[tuple[str, str]]) -> None:
    """Take submissions, each a lesson and a student, off the list."""
    listed = load_not_graded(desk)
    before = json.dumps(listed)
    for lesson, student in gone:
        listed.get(lesson, {}).pop(student, None)
    listed = {lesson: students for lesson, students in listed.items() if students}
    if json.dumps(listed) != before:
        _save(desk, listed)


def _save(desk: Path, listed: dict[str, dict[str, str]]) -> None:
    in_order = {lesson: dict(sorted(listed[lesson].items())) for lesson in sorted(listed)}
    atomic_write_text(desk / NAME, json.dumps(in_order, indent=1) + "\n")
