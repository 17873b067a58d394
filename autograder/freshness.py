"""Which solution notebooks are still what their source gives, and a rebuild of those that are not."""

import hashlib
import json
from pathlib import Path

import course_lib
from autograder.manifest import SOURCES, Lesson, load_manifest


def digest_of_inputs(course: Path, lesson: Lesson) -> str:
    """Give a hash of all that a lesson's solution notebook is built from: its source, the manifest, our code.

    Times of files are not asked: git and copies set them as they like.
    """
    packages = (Path(course_lib.__file__).parent, Path(__file__).parent)
    code = [file for package in packages for file in sorted(package.rglob("*.py"))]
    source = course / SOURCES / lesson.name / f"{lesson.name}.py"
    digest = hashlib.sha256()
    for file in (course / SOURCES / "course.toml", *([source] if source.is_file() else []), *code):
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)} ".encode() + content)
    return digest.hexdigest()


def is_fresh(course: Path, lesson: Lesson) -> bool:
    """Say whether the solution notebook on disk is what the source gives now."""
    try:
        text = (course / SOURCES / lesson.name / f"{lesson.name}.ipynb").read_text(encoding="utf-8")
        stamped = json.loads(text)["metadata"]["course"]["inputs"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return stamped == digest_of_inputs(course, lesson)


def refresh(course: Path) -> list[str]:
    """Build the solution notebooks that are missing or stale, and give their lessons' names.

    Raises CourseError where one cannot be built.
    """
    stale = [lesson for lesson in load_manifest(course).lesson if not is_fresh(course, lesson)]
    if stale:
        # Here, not above: jupytext and torch take seconds, and mostly nothing is stale.
        from autograder.build import write_solutions

        write_solutions(course, stale)
    return [lesson.name for lesson in stale]
