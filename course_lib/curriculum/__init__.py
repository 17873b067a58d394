"""The lessons and exercises of the course, and the part of them that students may see.

The source is `solutions/course.toml`, which only instructors have. `make lessons` writes the part that
students may see to `curriculum.json` in this folder, so that an installed `course_lib` contains it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

#: The part of the course that students may see, written by `make lessons`.
CURRICULUM = Path(__file__).with_name("curriculum.json")

#: Fields that students may not see. `public_curriculum()` returns them with their default values.
INSTRUCTORS_ONLY = {"seed", "files", "hints", "deductions", "may_not_call", "write", "levels"}

Points: TypeAlias = int | float


class _Table:
    """A table of `course.toml`. Unknown keys are rejected."""

    # pydantic reads this setting. Importing pydantic here would slow down every lesson and every graded
    # notebook, because they all import this module.
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


@dataclass(frozen=True)
class Explanation(_Table):
    """A question that students answer in words. The answers are graded by hand."""

    name: str
    points: Points


@dataclass(frozen=True)
class Prediction(_Table):
    """A number that students predict. The correct number is in `course_lib.checks`."""

    name: str
    points: Points
    deductions: dict[str, Points] = field(default_factory=dict)
    """Deductions for known wrong numbers, by name. Any other wrong number costs all points."""


@dataclass(frozen=True)
class Exercise(_Table):
    """A function or class that students write."""

    name: str
    points: Points
    does: str = ""
    """A one-sentence description for the architecture map. Exercises without one are not on the map."""
    part: bool = False
    """Whether the translation lab can run with a student's own version."""
    hints: list[str] = field(default_factory=list)
    """Three hints, from vague to explicit."""
    deductions: dict[str, Points] = field(default_factory=dict)
    """Deductions for known mistakes, by name. Any other mistake costs all points."""
    may_not_call: list[str] = field(default_factory=list)
    """Full names of functions that students may not call, because they would solve the whole exercise."""
    write: list[str] = field(default_factory=list)
    """The methods of a class that students write. The others are given."""


@dataclass(frozen=True)
class HandIn(_Table):
    """A file that students hand in with the notebook."""

    name: str
    file: str
    """The name of the file, which is next to the notebook."""
    points: Points
    levels: dict[str, list[tuple[Points, Points]]] = field(default_factory=dict)
    """For each corpus, pairs of a minimum BLEU and the points that it earns. Empty for unscored files."""


@dataclass(frozen=True)
class Lesson(_Table):
    """A lesson of the course. Its source is `solutions/NAME/NAME.py`."""

    name: str
    title: str
    minutes: int
    seed: int = -1
    """The seed of the random inputs of the lesson's hidden tests."""
    files: list[str] = field(default_factory=list)
    """Files that students get with the notebook, as paths inside the lesson's folder."""
    predictions: list[Prediction] = field(default_factory=list)
    exercises: list[Exercise] = field(default_factory=list)
    explanations: list[Explanation] = field(default_factory=list)
    hand_ins: list[HandIn] = field(default_factory=list)

    @property
    def package(self) -> str:
        """The lesson's package in `course_lib.checks.exercises`: `label_smoothing` for 08-label-smoothing."""
        return self.name[3:].replace("-", "_")

    @property
    def written(self) -> dict[str, Prediction | Exercise]:
        """The functions, classes and predictions that students write in code cells, by name."""
        entries: list[Prediction | Exercise] = [*self.predictions, *self.exercises]
        return {entry.name: entry for entry in entries}

    @property
    def checked(self) -> dict[str, Prediction | Exercise | HandIn]:
        """All predictions, exercises and hand-in files, by name. Each of them has a check cell."""
        return {**self.written, **{entry.name: entry for entry in self.hand_ins}}

    @property
    def points(self) -> dict[str, Points]:
        """The maximum points of each graded cell, by its grade_id."""
        automatic = {f"check_{name}": entry.points for name, entry in self.checked.items()}
        return automatic | {entry.name: entry.points for entry in self.explanations}


@dataclass(frozen=True)
class Curriculum(_Table):
    """The lessons of the course, and the files that students get with every lesson."""

    files: list[str] = field(default_factory=list)
    """Files copied to the top of `lessons/` and to each lesson's folder, as paths inside `solutions/`."""
    lessons: list[Lesson] = field(default_factory=list)

    @property
    def blocks(self) -> dict[str, tuple[Lesson, Exercise]]:
        """The exercises on the architecture map and their lessons, by exercise name, in lesson order."""
        return {
            exercise.name: (lesson, exercise)
            for lesson in self.lessons
            for exercise in lesson.exercises
            if exercise.does
        }

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The exercises for which the lab can use a student's code, by lesson.

        Lessons without such exercises are omitted.
        """
        return {
            lesson.name: names
            for lesson in self.lessons
            if (names := tuple(exercise.name for exercise in lesson.exercises if exercise.part))
        }


def public_json(curriculum: Curriculum) -> str:
    """Return the part of a course that students may see, as JSON with a line for each lesson.

    Empty values are omitted.
    """
    entries = asdict(curriculum, dict_factory=_public)
    lessons = ",\n".join(json.dumps(lesson, ensure_ascii=False) for lesson in entries["lessons"])
    return f'{{"lessons": [\n{lessons}\n]}}\n'


def _public(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Omit empty values, because they are the defaults.
    return {
        name: value for name, value in pairs if name not in INSTRUCTORS_ONLY and value not in ("", False, [])
    }


@cache
def public_curriculum() -> Curriculum:
    """Load the part of the course that students may see. All other fields have their default values."""
    entries = json.loads(CURRICULUM.read_text(encoding="utf-8"))
    return Curriculum(lessons=[_lesson(lesson) for lesson in entries["lessons"]])


def _lesson(entries: Mapping[str, Any]) -> Lesson:
    kinds = {
        "predictions": Prediction,
        "exercises": Exercise,
        "explanations": Explanation,
        "hand_ins": HandIn,
    }
    lists = {key: [kind(**entry) for entry in entries.get(key, ())] for key, kind in kinds.items()}
    return Lesson(**{**entries, **lists})
