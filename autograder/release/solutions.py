"""Find stale solution notebooks, which git ignores, and rebuild them."""

import hashlib
import json
import sys
from collections.abc import Collection
from functools import cache
from pathlib import Path

import course_lib
from course_lib.atomic_files import atomic_write_text
from course_lib.curriculum import CURRICULUM, Curriculum, Lesson, public_curriculum, public_json
from course_lib.curriculum.course_file import SOURCES, CourseError, load_curriculum


def refresh(course: Path, names: Collection[str] = ()) -> list[str]:
    """Build missing and stale solution notebooks, and return the problems that were found.

    If `names` is not empty, only the lessons with these names are built. A notebook that cannot be built is
    deleted, so that no outdated one is released or shown. If the course contains the `course_lib` package,
    its `curriculum.json` is updated as well. Raises CourseError if `course.toml` is not valid.
    """
    curriculum = load_curriculum(course)
    write_curriculum(course, curriculum)
    digests = _digests(course, curriculum)
    problems: list[str] = []
    for lesson in curriculum.lessons:
        if names and lesson.name not in names:
            continue
        if _built_from(course, lesson) != digests[lesson.name]:
            problems += _write_solution(course, lesson, digests[lesson.name])
    return problems


@cache
def refresh_at_start(course: Path) -> None:
    """Refresh the solution notebooks when nbgrader starts, and print any problems to stderr.

    Further calls in the same process do nothing, because a command may load its configuration several times.
    Raises CourseError if `course.toml` is not valid.
    """
    if problems := refresh(course):
        print("These lessons have problems and cannot be released:", *problems, sep="\n", file=sys.stderr)


def write_curriculum(course: Path, curriculum: Curriculum) -> list[str]:
    """Update `curriculum.json`, the part of the curriculum that students may see.

    Return a list with the file's path, relative to the course, if the file was changed. Otherwise, or if the
    course doesn't contain `course_lib`, return an empty list.
    """
    stale = stale_curriculum(course, curriculum)
    for name in stale:
        atomic_write_text(course / name, public_json(curriculum))
        public_curriculum.cache_clear()
    return stale


def stale_curriculum(course: Path, curriculum: Curriculum) -> list[str]:
    """Return a list with the relative path of `curriculum.json` if it is missing or outdated.

    Otherwise, or if the course doesn't contain `course_lib`, return an empty list.
    """
    path = course / "course_lib" / "curriculum" / CURRICULUM.name
    if not path.parent.is_dir():
        return []
    is_current = path.is_file() and path.read_text(encoding="utf-8") == public_json(curriculum)
    return [] if is_current else [path.relative_to(course).as_posix()]


def _write_solution(course: Path, lesson: Lesson, digest: str) -> list[str]:
    # Import these modules here, because loading jupytext and torch takes seconds and usually isn't needed.
    import nbformat

    from autograder.release.solution_notebook import solution_notebook

    path = _path(course, lesson)
    try:
        notebook = solution_notebook(course, lesson, digest)
    except CourseError as error:
        path.unlink(missing_ok=True)
        return error.problems
    atomic_write_text(path, nbformat.writes(notebook) + "\n")
    return []


def _digests(course: Path, curriculum: Curriculum) -> dict[str, str]:
    """Return a hash of all files that can change a lesson's solution notebook, keyed by lesson name.

    File times are not used, because git and copying change them.
    """
    packages = (Path(course_lib.__file__).parent, Path(__file__).parents[1])
    code = [file for package in packages for file in sorted(package.rglob("*.py"))]
    common = hashlib.sha256()
    for file in (course / SOURCES / "course.toml", *code):
        content = file.read_bytes()
        common.update(f"{file.name} {len(content)} ".encode() + content)
    digests: dict[str, str] = {}
    for lesson in curriculum.lessons:
        source = _path(course, lesson).with_suffix(".py")
        digest = common.copy()
        digest.update(source.read_bytes() if source.is_file() else b"")
        digests[lesson.name] = digest.hexdigest()
    return digests


def _built_from(course: Path, lesson: Lesson) -> str | None:
    try:
        notebook = json.loads(_path(course, lesson).read_text(encoding="utf-8"))
        return str(notebook["metadata"]["course"]["inputs"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _path(course: Path, lesson: Lesson) -> Path:
    return course / SOURCES / lesson.name / f"{lesson.name}.ipynb"
