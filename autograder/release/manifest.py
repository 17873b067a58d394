"""The manifest, `solutions/course.toml`: which lessons there are, and what their exercises are worth."""

import tomllib
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from autograder.errors import CourseError

#: How many hints each exercise has, from gentle to plain.
HINTS = 3

#: The folders of a course, beside `autograder/`.
SOURCES, LESSONS = "solutions", "lessons"


def _inside(path: str) -> str:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError(f"{path!r} must be a path inside the folder that it is copied from")
    if path.endswith((".ipynb", "course.toml")):
        raise ValueError(f"{path!r} is no file to hand out as it is")
    return path


def _three(hints: list[str]) -> list[str]:
    if len(hints) != HINTS:
        raise ValueError(f"expected {HINTS} hints, from gentle to plain, and found {len(hints)}")
    for number, hint in enumerate(hints, start=1):
        if not hint.strip():
            raise ValueError(f"hint {number} is empty: write it")
    return hints


Points = Annotated[int | float, Field(gt=0)]
#: The name of a cell, which nbgrader also takes for its grade_id.
Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z][a-zA-Z0-9_]*$", max_length=50)]
#: What a misconception costs, by its name in `course_lib.checks`. All others cost all points.
Slips = Annotated[dict[str, Points], Field(default_factory=dict)]
Files = Annotated[list[Annotated[str, AfterValidator(_inside)]], Field(default_factory=list)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Explanation(_Table):
    """A question that students answer in words, and a person grades."""

    name: Name
    points: Points


class Prediction(_Table):
    """A number that students predict. The answer stands in `course_lib.checks`."""

    name: Name
    points: Points
    slips: Slips


class Exercise(_Table):
    """A function or class that students write."""

    name: Name
    points: Points
    hints: Annotated[list[str], AfterValidator(_three)]
    slips: Slips
    may_not_call: list[str] = Field(default_factory=list)
    """Full names of the functions that would be the whole exercise."""
    write: list[str] = Field(default_factory=list)
    """The methods of a class that students write; the others are given."""


class HandIn(_Table):
    """A file that students hand in beside the notebook. `course_lib.checks` says what it is called."""

    name: Name
    points: Points
    levels: dict[str, list[tuple[int | float, Points]]] = Field(default_factory=dict)
    """Where a score counts: by corpus, the least BLEU and the points for it."""


class Lesson(_Table):
    """One lesson: its source is `solutions/NAME/NAME.py`."""

    name: Annotated[str, StringConstraints(pattern=r"^\d\d-[a-z0-9-]+$", max_length=40)]
    title: str
    minutes: Annotated[int, Field(gt=0)]
    paper: list[str]
    """The paper's sections that it teaches."""
    seed: int
    """Where the numbers of its hidden tests come from."""
    files: Files
    """What students get besides the notebook, as paths inside the lesson's folder."""
    prediction: list[Prediction] = Field(default_factory=list)
    exercise: list[Exercise] = Field(default_factory=list)
    explanation: list[Explanation] = Field(default_factory=list)
    hand_in: list[HandIn] = Field(default_factory=list)

    @property
    def checked(self) -> dict[str, Prediction | Exercise]:
        """What has a check cell, by name."""
        predictions: dict[str, Prediction | Exercise] = {entry.name: entry for entry in self.prediction}
        return predictions | {entry.name: entry for entry in self.exercise}

    @property
    def points(self) -> dict[str, int | float]:
        """The most points that each grade cell can give, by its grade_id."""
        automatic = {f"check_{name}": entry.points for name, entry in self.checked.items()}
        automatic |= {f"check_{entry.name}": entry.points for entry in self.hand_in}
        return automatic | {entry.name: entry.points for entry in self.explanation}


class Manifest(_Table):
    """The whole course."""

    title: str
    files: Files
    """What lies at the top of `lessons/`, as paths inside `solutions/`."""
    lesson: list[Lesson]


def load_manifest(course: Path) -> Manifest:
    """Read the manifest of the course in a folder.

    Raises CourseError, with one line for each thing that is missing, misspelt or out of range.
    """
    path = course / SOURCES / "course.toml"
    shown = f"{SOURCES}/course.toml"
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CourseError(
            f"{shown}: there is no such file in {course}; a course needs its manifest"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise CourseError(f"{shown}: not valid TOML: {error}") from None
    try:
        manifest = Manifest.model_validate(entries)
    except ValidationError as error:
        raise CourseError(
            f"{shown}, {_place(entries, e['loc'])}: {_says(e)}" for e in error.errors()
        ) from None
    problems = [f"{shown}, {problem}" for problem in (*_clashes(manifest), *_missing_files(course, manifest))]
    if problems:
        raise CourseError(problems)
    return manifest


def _missing_files(course: Path, manifest: Manifest) -> list[str]:
    declared = [
        *manifest.files,
        *(f"{lesson.name}/{file}" for lesson in manifest.lesson for file in lesson.files),
    ]
    return [
        f"files: {SOURCES}/{file} is not there; add it, or take it out of the list"
        for file in declared
        if not (course / SOURCES / file).is_file()
    ]


def _clashes(manifest: Manifest) -> list[str]:
    lessons = [lesson.name for lesson in manifest.lesson]
    problems = [
        f"lesson {name}: its name stands there twice" for name, n in Counter(lessons).items() if n > 1
    ]
    if lessons != sorted(lessons):
        problems.append(f"the lessons must stand in the order of their numbers; found {', '.join(lessons)}")
    for lesson in manifest.lesson:
        names = Counter(entry.name for entry in lesson.prediction)
        names.update(entry.name for entry in lesson.exercise)
        names.update(entry.name for entry in lesson.explanation)
        names.update(entry.name for entry in lesson.hand_in)
        problems += [
            f"lesson {lesson.name}, {name}: its name stands there twice" for name, n in names.items() if n > 1
        ]
        problems += [
            f"lesson {lesson.name}, {name}: the slip {slip} costs {cost}, more than all {entry.points} points"
            for name, entry in lesson.checked.items()
            for slip, cost in entry.slips.items()
            if cost > entry.points
        ]
        problems += [
            f"lesson {lesson.name}, {entry.name}: the best level of {corpus} has to give all "
            f"{entry.points:g} points, and gives {max((points for _, points in levels), default=0):g}"
            for entry in lesson.hand_in
            for corpus, levels in entry.levels.items()
            if max((points for _, points in levels), default=0) != entry.points
        ]
    return problems


def _place(entries: Any, location: tuple[str | int, ...]) -> str:
    """Say where in the manifest something stands, with names in place of numbers."""
    words: list[str] = []
    for step in location:
        if isinstance(step, int) and isinstance(entries, list) and step < len(entries):
            entries = entries[step]
            name = entries.get("name") if isinstance(entries, dict) else None
            words[-1] += f" {name or step + 1}"
        else:
            entries = entries.get(step) if isinstance(entries, dict) else None
            if step not in ("int", "float"):  # the two kinds of points that were tried
                words.append(str(step))
    return ", ".join(words)


def _says(error: Any) -> str:
    found = error["input"]
    if error["type"] == "extra_forbidden":
        return "no such key is known here; mend its spelling, or take it out"
    if error["type"] == "missing":
        return "is missing"
    return f"{error['msg'].removeprefix('Value error, ')} (found {found!r})"
