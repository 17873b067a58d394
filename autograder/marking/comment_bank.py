"""Comments that graders can insert: saved ones, criteria of the mark scheme, and misconceptions."""

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from autograder.marking.answers import Question
from course_lib.atomic_files import atomic_write_text
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.exercises.registry import catalogue
from course_lib.curriculum.course_file import CourseError, load_curriculum

#: The file of the graders' own comments, in the folder of nbgrader_config.py. It maps "lesson/question" to
#: comments by key.
FILE = "comments.json"

#: The maximum length of a key, which is a few words.
MAX_KEY = 60

_Saved = TypeAdapter(dict[str, dict[str, str]])


class CommentError(ValueError):
    """The error raised if a comment cannot be saved, or the file of saved comments cannot be read."""


@dataclass(frozen=True)
class BankComment:
    """A comment that a grader can insert."""

    origin: str
    """The source: "saved", "mark scheme", or the name of an exercise or a prediction."""
    key: str
    """A short name for finding the comment, such as a misconception's name or a few words."""
    text: str


class CommentBank:
    """The comments that graders can insert for one lesson.

    `folder` contains the file of saved comments, and `course` is the folder of the course. If `shared` is
    true, other accounts of the group can write the file too.
    """

    def __init__(self, folder: Path, course: Path, lesson: str, shared: bool = False) -> None:
        self._path = folder / FILE
        self._course, self._lesson, self._shared = course, lesson, shared

    def comments(self, question: Question) -> list[BankComment]:
        """Return the comments for a question: saved ones, criteria of the mark scheme, and misconceptions.

        Raises CommentError if the file of saved comments cannot be read.
        """
        saved = self._read().get(f"{self._lesson}/{question.name}", {})
        return [*(BankComment("saved", key, text) for key, text in saved.items()), *self.provided(question)]

    def provided(self, question: Question) -> list[BankComment]:
        """Return the built-in comments for a question: criteria and misconceptions."""
        criteria = (
            BankComment("mark scheme", f"criterion {number}", criterion.text)
            for number, criterion in enumerate(question.scheme.criteria, start=1)
        )
        return [*criteria, *self._misconceptions()]

    def _misconceptions(self) -> Iterator[BankComment]:
        """Yield a comment for each misconception that the checks of this lesson can recognise.

        There are none if the course's sources have problems.
        """
        try:
            lessons = load_curriculum(self._course).lessons
        except CourseError:
            return
        for lesson in lessons:
            for name in lesson.checked if lesson.name == self._lesson else ():
                entry = catalogue().get(name)
                if isinstance(entry, ExerciseCheck):
                    for mistake in entry.misconceptions:
                        text = f"{mistake.statement[:1].upper()}{mistake.statement[1:]}. {mistake.hint}"
                        yield BankComment(name, mistake.name, text)
                elif isinstance(entry, PredictionCheck):
                    for number in entry.misconceptions:
                        yield BankComment(name, f"{number.name} ({number.value:g})", number.hint)

    def save(self, question: Question, key: str, text: str) -> None:
        """Add a comment for a question to the file of saved comments.

        Raises CommentError, and leaves the file unchanged, if the key is empty, too long or already used for
        another text, if the text is empty, or if the file cannot be read. Raises OSError if the file
        can't be written.
        """
        key, text = " ".join(key.split()), text.strip()
        if not key or len(key) > MAX_KEY:
            raise CommentError(
                f"The name of a comment must have 1 to {MAX_KEY} characters, but this one has {len(key)}."
            )
        if not text:
            raise CommentError("The comment is empty. Write it first, then save it.")
        # Lock a separate file, because each write replaces the file of comments.
        with FileLock(self._path.with_name(f".{FILE}.lock"), mode=0o660 if self._shared else 0o600):
            saved = self._read()
            comments = saved.setdefault(f"{self._lesson}/{question.name}", {})
            if comments.setdefault(key, text) != text:
                raise CommentError(f"There is another comment called {key!r}. Choose another name.")
            atomic_write_text(self._path, json.dumps(saved, indent=2, ensure_ascii=False) + "\n")
            if self._shared:
                self._path.chmod(stat.S_IMODE(self._path.stat().st_mode) | 0o060)

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            return _Saved.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise CommentError(
                f"{self._path} cannot be read, so no saved comments are shown or added: {error.strerror}."
            ) from None
        except ValidationError as error:
            raise CommentError(
                f"{self._path} is not valid, so no saved comments are shown or added: "
                f"{error.errors()[0]['msg']}. Correct it, or move it away."
            ) from None
