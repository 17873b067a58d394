"""Load and validate `solutions/course.toml`."""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from course_lib.curriculum import Curriculum, Exercise, Explanation, HandIn, Lesson, Prediction

#: The number of hints of each exercise.
HINTS = 3

#: The folders of a course, next to `autograder/`.
SOURCES, LESSONS = "solutions", "lessons"

Entry: TypeAlias = Prediction | Exercise | Explanation | HandIn

_SHOWN = f"{SOURCES}/course.toml"
_LESSON_NAME = re.compile(r"\d\d-[a-z0-9-]{1,37}")
#: The pattern of a cell's name, which is also its grade_id in nbgrader.
_CELL_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,49}")
#: The pattern of the name of a file to hand in. It excludes notebooks, and files that `zip_collect` skips
#: (web pages, hidden files), unpacks (archives), or uses for the time of submission and the student's log.
_HAND_IN = re.compile(
    r"(?!timestamp\.txt$|check_log\.jsonl$)[A-Za-z0-9][\w.-]*\.(?!(?:ipynb|html|zip|gz)$)\w+"
)


class CourseError(ValueError):
    """The error raised if a course can't be built or must not be released.

    `problems` contains one line for each problem, which names the file, the cell and what to do. The message
    consists of these lines.
    """

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


def load_curriculum(course: Path) -> Curriculum:
    """Load the lessons and exercises of the course in a folder.

    Raises CourseError if `course.toml` is missing, isn't valid TOML, has missing or unknown keys or invalid
    values, or lists a file that doesn't exist. Each problem is one line of the error.
    """
    try:
        entries = tomllib.loads((course / SOURCES / "course.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CourseError(f"{_SHOWN}: no such file in {course}. Every course needs one.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{_SHOWN}: not valid TOML: {error}") from None
    except OSError as error:
        raise CourseError(f"{_SHOWN}: cannot be read: {error.strerror}") from None
    try:
        curriculum = TypeAdapter(Curriculum).validate_python(entries)
    except ValidationError as error:
        raise CourseError(
            f"{_SHOWN}, {_location(entries, e['loc'])}: {_message(e['type'], e['msg'], e['input'])}"
            for e in error.errors()
        ) from None
    problems = [
        f"{_SHOWN}, {problem}" for problem in (*_problems(curriculum), *_missing_files(course, curriculum))
    ]
    if problems:
        raise CourseError(problems)
    return curriculum


def _location(entries: Any, location: tuple[str | int, ...]) -> str:
    """Describe a position in the TOML file by the names of lessons and exercises, or by number if unnamed."""
    words: list[str] = []
    for step in location:
        if isinstance(step, int) and isinstance(entries, list) and step < len(entries):
            entries = entries[step]
            name = entries.get("name") if isinstance(entries, dict) else None
            words[-1] = f"{words[-1].removesuffix('s')} {name or step + 1}"
        else:
            entries = entries.get(step) if isinstance(entries, dict) else None
            if step not in ("int", "float"):  # Leave out the types that pydantic tried for points.
                words.append(str(step))
    return ", ".join(words)


def _message(kind: str, message: str, value: object) -> str:
    if kind == "unexpected_keyword_argument":
        return "unknown key. Correct its spelling or remove it."
    if kind == "missing":
        return "is missing"
    return f"{message} (got {value!r})"


def _problems(curriculum: Curriculum) -> Iterator[str]:
    yield from _bad_paths(curriculum.files)
    names = [lesson.name for lesson in curriculum.lessons]
    if names != sorted(names):
        yield f"lessons: expected the lessons in the order of their numbers, got {', '.join(names)}"
    yield from (f"lesson {name}: {n} lessons have this name" for name, n in Counter(names).items() if n > 1)
    for lesson in curriculum.lessons:
        entries: list[Entry] = [
            *lesson.predictions,
            *lesson.exercises,
            *lesson.explanations,
            *lesson.hand_ins,
        ]
        used = Counter(entry.name for entry in entries)
        duplicates = [f"{name}: {n} entries have this name" for name, n in used.items() if n > 1]
        found = [*_lesson_problems(lesson), *duplicates]
        found += [problem for entry in entries for problem in _entry_problems(entry)]
        yield from (f"lesson {lesson.name}, {problem}" for problem in found)


def _lesson_problems(lesson: Lesson) -> Iterator[str]:
    if not _LESSON_NAME.fullmatch(lesson.name):
        yield "name: expected two digits, a hyphen and a short lower-case title, as in 01-attention"
    if lesson.minutes <= 0:
        yield f"minutes: expected a positive number, got {lesson.minutes}"
    if lesson.seed < 0:
        yield f"seed: expected a non-negative integer, got {lesson.seed}"
    yield from _bad_paths(lesson.files)


def _entry_problems(entry: Entry) -> Iterator[str]:
    if not _CELL_NAME.fullmatch(entry.name):
        yield f"{entry.name}: expected a letter and up to 49 more letters, digits or underscores"
    if not 0 < entry.points < math.inf:
        yield f"{entry.name}, points: expected a positive number, got {entry.points}"
    if isinstance(entry, Exercise):
        if len(entry.hints) != HINTS:
            yield f"{entry.name}, hints: expected {HINTS}, from vague to explicit, got {len(entry.hints)}"
        for number, hint in enumerate(entry.hints, start=1):
            if not hint.strip():
                yield f"{entry.name}, hints: hint {number} is empty. Write it."
    if isinstance(entry, Prediction | Exercise):
        for name, points in entry.deductions.items():
            if entry.points > 0 and not 0 < points <= entry.points:
                yield (
                    f"{entry.name}, deductions: {name} must cost more than 0 and at most "
                    f"{entry.points:g} points, got {points:g}"
                )
    if isinstance(entry, HandIn):
        if not _HAND_IN.fullmatch(entry.file):
            yield (
                f"{entry.name}, file: expected the name of a file next to the notebook, with an ending such "
                f"as .txt or .yaml, got {entry.file!r}. Notebooks, web pages and archives can't be handed in."
            )
        for corpus, levels in entry.levels.items():
            best = max((points for _, points in levels), default=0)
            if best != entry.points:
                yield (
                    f"{entry.name}, levels: the best level of {corpus} must earn all "
                    f"{entry.points:g} points, got {best:g}"
                )


def _bad_paths(paths: list[str]) -> Iterator[str]:
    for path in paths:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            yield f"files: expected paths inside the folder, got {path!r}"
        elif path.endswith((".ipynb", "course.toml")):
            yield f"files: {path!r} cannot be handed out unchanged. Remove it from the list."


def _missing_files(course: Path, curriculum: Curriculum) -> Iterator[str]:
    listed = [
        *curriculum.files,
        *(f"{lesson.name}/{file}" for lesson in curriculum.lessons for file in lesson.files),
    ]
    for file in listed:
        if not (course / SOURCES / file).is_file():
            yield f"files: {SOURCES}/{file} does not exist. Create it or remove it from the list."
