"""The data about a lesson that the judge needs besides a submission, in a form that any worker can use."""

from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import nbformat

from autograder.judge.job import digest_of
from course_lib.curriculum import Curriculum, Lesson
from course_lib.curriculum.course_file import LESSONS, SOURCES, load_curriculum


@dataclass(frozen=True)
class ReleasedCell:
    """A code cell of the released lesson."""

    id: str
    source: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class LessonSource:
    """The parts of a course folder that the judge needs for one lesson."""

    name: str
    curriculum: Curriculum
    cells: tuple[ReleasedCell, ...] = ()

    @property
    def lesson(self) -> Lesson | None:
        """The lesson in the curriculum, or None for an instructor's own assignment."""
        return next((lesson for lesson in self.curriculum.lessons if lesson.name == self.name), None)

    @property
    def may_not_call(self) -> dict[str, list[str]]:
        """The functions that each exercise prohibits, keyed by the names of all exercises and predictions."""
        written = self.lesson.written if self.lesson else {}
        return {name: list(getattr(entry, "may_not_call", ())) for name, entry in written.items()}

    @cached_property
    def digest(self) -> str:
        """A hash of the parts of the lesson that can change a result. Its texts, hints and points can't."""
        withheld = withheld_exercises(self.curriculum, self.lesson) if self.lesson else {}
        return digest_of(self.name, [asdict(cell) for cell in self.cells], withheld, self.may_not_call)


def withheld_exercises(curriculum: Curriculum, lesson: Lesson) -> dict[str, str]:
    """Return the exercises of this lesson and of all later ones, mapped to the names of their lessons.

    While the lesson is graded, the reference's code for these exercises is withheld from submissions.
    """
    first = [one.name for one in curriculum.lessons].index(lesson.name)
    return {entry.name: one.name for one in curriculum.lessons[first:] for entry in one.exercises}


def load_lesson_source(course: Path, name: str) -> LessonSource:
    """Load the parts of a course folder that the judge needs for the lesson called `name`.

    The result is cached until course.toml or a released notebook of the lesson changes. Raises CourseError if
    course.toml is not valid.
    """
    toml = course / SOURCES / "course.toml"
    released = sorted((course / LESSONS / name).glob("*.ipynb"))
    versions = tuple((path, path.stat().st_mtime_ns) for path in (toml, *released))
    return _load(course, name, versions)


@lru_cache(maxsize=50)
def _load(course: Path, name: str, versions: tuple[tuple[Path, int], ...]) -> LessonSource:
    cells = [cell for path, _ in versions[1:] for cell in nbformat.read(path, as_version=4).cells]
    return LessonSource(
        name,
        load_curriculum(course),
        tuple(
            ReleasedCell(cell.get("id", ""), cell.source, tuple(cell.metadata.get("tags", ())))
            for cell in cells
            if cell.cell_type == "code"
        ),
    )
