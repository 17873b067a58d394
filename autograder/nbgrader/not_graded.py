"""The list of submissions that could not be graded, with reasons: `not_graded.json`.

It maps each lesson and student to a reason. An entry is removed when the submission is graded or withdrawn.
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from course_lib.atomic_files import atomic_write_text

NAME = "not_graded.json"

_Reasons = TypeAdapter(dict[str, dict[str, str]])


def read_not_graded(folder: Path) -> dict[str, dict[str, str]]:
    """Return the reasons in a folder's list, keyed by lesson and then by student; none if there is no list.

    Raises ValueError if the file is damaged.
    """
    try:
        return _Reasons.validate_json((folder / NAME).read_bytes())
    except FileNotFoundError:
        return {}


class NotGraded:
    """The list of a course's submissions that were not graded, in a file in `folder`.

    A damaged file counts as an empty list. If the file can't be written, a warning is logged.
    """

    def __init__(self, folder: Path, log: logging.Logger) -> None:
        self._path, self._log = folder / NAME, log

    def load(self) -> dict[str, dict[str, str]]:
        """Return the reasons, keyed by lesson and then by student."""
        try:
            return read_not_graded(self._path.parent)
        except ValidationError:
            return {}

    def add(self, lesson: str, student: str, reason: str) -> None:
        """Record why a submission was not graded."""
        student = student.encode(errors="replace").decode()  # The name of a folder may not be valid UTF-8.
        reasons = self.load()
        reasons.setdefault(lesson, {})[student] = reason
        self._save(reasons)

    def remove(self, lesson: str, student: str) -> None:
        """Remove a submission from the list."""
        self.prune(lambda *entry: entry != (lesson, student))

    def prune(self, keep: Callable[[str, str], bool]) -> None:
        """Remove every submission for which `keep(lesson, student)` returns False."""
        if self._path.exists():
            self._save(
                {
                    lesson: {student: reason for student, reason in students.items() if keep(lesson, student)}
                    for lesson, students in self.load().items()
                }
            )

    def _save(self, reasons: dict[str, dict[str, str]]) -> None:
        reasons = {lesson: students for lesson, students in reasons.items() if students}
        text = json.dumps(reasons, indent=1, sort_keys=True) + "\n"
        try:
            if not self._path.exists() or self._path.read_bytes() != text.encode():
                atomic_write_text(self._path, text)
        except OSError as error:
            self._log.warning("%s cannot be updated: %s", self._path, error)
