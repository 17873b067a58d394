"""Release the lessons with nbgrader, and write the result to `lessons/`."""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from nbgrader.converters import GenerateAssignment
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config, PyFileConfigLoader

from autograder.release.solutions import refresh, write_curriculum
from course_lib.atomic_files import atomic_write
from course_lib.curriculum import Curriculum
from course_lib.curriculum.course_file import LESSONS, SOURCES, CourseError, load_curriculum
from course_lib.student.progress.start_page import PAGE

#: Files and folders that are not part of the course: Jupyter's checkpoints, Python's caches, the start page
#: and the lab's runs.
IGNORED = {".ipynb_checkpoints", "__pycache__", PAGE, "runs"}

#: The settings that `nbgrader generate_assignment --no-db` changes.
_WITHOUT_GRADEBOOK = {"GenerateAssignment": {"no_database": True}, "SaveCells": {"enabled": False}}


def select(curriculum: Curriculum, names: Collection[str]) -> Curriculum:
    """Return the curriculum with only the named lessons or, if `names` is empty, with all of them.

    Raises CourseError if there is no lesson with one of the names.
    """
    known = [lesson.name for lesson in curriculum.lessons]
    if unknown := [name for name in names if name not in known]:
        raise CourseError(
            f"there is no lesson called {name!r}. The lessons are: {', '.join(known)}" for name in unknown
        )
    return replace(
        curriculum, lessons=[lesson for lesson in curriculum.lessons if lesson.name in (names or known)]
    )


@contextmanager
def released(course: Path, names: Collection[str] = ()) -> Iterator[Path]:
    """Release lessons to a temporary folder, and yield the path of its `lessons/`.

    These are the lessons called `names`, or all lessons if there are no names. Stale solution notebooks are
    rebuilt first. nbgrader runs with the course's configuration, but without a gradebook. Raises CourseError
    if `course.toml` or a misconception is not valid, or if a lesson cannot be built or released. If all
    lessons are released, the concept test must be valid, too.
    """
    curriculum = select(load_curriculum(course), names)
    stale = refresh(course, names)
    # Import this module here, because it imports torch, which takes seconds.
    from autograder.release.consistency import concept_test_problems, inconsistencies

    problems = [*inconsistencies(curriculum.lessons), *stale]
    if not problems and not names:
        problems = concept_test_problems(course)
    if problems:
        raise CourseError(problems)
    with TemporaryDirectory(prefix="release-") as folder:
        root = Path(folder)
        (root / SOURCES).symlink_to((course / SOURCES).resolve())
        config = PyFileConfigLoader("nbgrader_config.py", path=str(course / "autograder")).load_config()
        config.merge(Config({"CourseDirectory": {"root": folder}, **_WITHOUT_GRADEBOOK}))
        for lesson in curriculum.lessons:
            directory = CourseDirectory(config=config, assignment_id=lesson.name)
            try:
                GenerateAssignment(coursedir=directory, config=config).start()
            except NbGraderException as error:
                raise CourseError(f"{SOURCES}/{lesson.name}: nbgrader cannot release it: {error}") from error
        for target in (root / LESSONS, *(root / LESSONS / lesson.name for lesson in curriculum.lessons)):
            copy_course_files(course, curriculum, target)
        yield root / LESSONS


def copy_course_files(course: Path, curriculum: Curriculum, folder: Path) -> None:
    """Copy the files that all lessons share into a folder, which is created if necessary.

    `curriculum.files` lists these files. Each lesson's folder needs copies, because students fetch lessons
    one at a time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for file in curriculum.files:
        shutil.copyfile(course / SOURCES / file, folder / file)


def files_in(folder: Path) -> dict[str, Path]:
    """Return the paths of all files in a folder, keyed by their POSIX paths relative to the folder.

    Files and folders with a name in `IGNORED` are left out.
    """
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not IGNORED & set(path.relative_to(folder).parts)
    }


def write_lessons(course: Path) -> list[str]:
    """Update `lessons/` and `curriculum.json`, and return the paths of changed files, relative to the course.

    Files in `lessons/` that have no source are left alone. Raises CourseError if a lesson cannot be built or
    released.
    """
    changed = write_curriculum(course, load_curriculum(course))
    with released(course) as folder:
        for name, new in files_in(folder).items():
            old = course / LESSONS / name
            if old.is_file() and old.read_bytes() == new.read_bytes():
                continue
            old.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(old) as file:
                file.write(new.read_bytes())
            changed.append(f"{LESSONS}/{name}")
    return changed
