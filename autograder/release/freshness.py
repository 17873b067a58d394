"""Which solution notebooks are still what their source gives, and a rebuild of those that are not."""

import hashlib
import json
import sys
from functools import cache
from pathlib import Path

import course_lib
from course_lib.curriculum import Curriculum, Lesson
from course_lib.curriculum.course_file import SOURCES, load_curriculum


def stamps(course: Path, curriculum: Curriculum) -> dict[str, str]:
    """Return for each lesson a hash of everything that its solution notebook is built from.

    Times of files are not asked: git and copies set them as they like.
    """
    packages = (Path(course_lib.__file__).parent, Path(__file__).parents[1])
    code = [file for package in packages for file in sorted(package.rglob("*.py"))]
    common = hashlib.sha256()
    for file in (course / SOURCES / "course.toml", *code):
        content = file.read_bytes()
        common.update(f"{file.name} {len(content)} ".encode() + content)
    found: dict[str, str] = {}
    for lesson in curriculum.lessons:
        source = course / SOURCES / lesson.name / f"{lesson.name}.py"
        digest = common.copy()
        digest.update(source.read_bytes() if source.is_file() else b"")
        found[lesson.name] = digest.hexdigest()
    return found


def refresh(course: Path) -> list[str]:
    """Build the solution notebooks that are missing or stale, and give what is wrong with any.

    One that cannot be built is removed where it stood, so that none is released or shown that is out of date.
    Raises CourseError if course.toml is not valid.
    """
    curriculum = load_curriculum(course)
    current = stamps(course, curriculum)
    stale = [lesson for lesson in curriculum.lessons if _stamp_of(course, lesson) != current[lesson.name]]
    if not stale:
        return []
    # Here, not above: jupytext and torch take seconds, and mostly nothing is stale.
    from autograder.release.build import write_solutions

    return write_solutions(course, stale, current)


@cache
def refresh_at_start(course: Path) -> None:
    """Do so for nbgrader, and say what is wrong: once, although one command loads its configuration often."""
    if problems := refresh(course):
        print("Not in order, and so not to be released:", *problems, sep="\n", file=sys.stderr)


def _stamp_of(course: Path, lesson: Lesson) -> str | None:
    try:
        text = (course / SOURCES / lesson.name / f"{lesson.name}.ipynb").read_text(encoding="utf-8")
        stamp: str = json.loads(text)["metadata"]["course"]["inputs"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return stamp
