"""Build what students get: `python -m autograder.release.build`. With `--check`, see that all is in order."""

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbgrader.converters import GenerateAssignment
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config, PyFileConfigLoader

from autograder.release.freshness import refresh
from course_lib.atomic_files import atomic_write, atomic_write_text
from course_lib.curriculum import Lesson, public_curriculum
from course_lib.curriculum.course_file import LESSONS, SOURCES, CourseError, load_curriculum
from course_lib.curriculum.lessons import CURRICULUM, public_json
from course_lib.student.progress.start_page import PAGE

#: The course that this file belongs to.
COURSE = Path(__file__).resolve().parents[2]

#: Where the final lab's runs are kept, beside the lessons.
RUNS = "runs"

#: What `nbgrader generate_assignment --no-db` sets.
WITHOUT_GRADEBOOK = {"GenerateAssignment": {"no_database": True}, "SaveCells": {"enabled": False}}


def write_solutions(course: Path, lessons: Sequence[Lesson], stamps: Mapping[str, str]) -> list[str]:
    """Build the solution notebooks of these lessons, beside their sources, and give what is wrong with any.

    A lesson that cannot be built has no solution notebook afterwards.
    """
    from autograder.release.solution_notebook import solution_notebook

    problems: list[str] = []
    for lesson in lessons:
        path = course / SOURCES / lesson.name / f"{lesson.name}.ipynb"
        try:
            notebook = solution_notebook(course, lesson, stamps[lesson.name])
        except CourseError as error:
            path.unlink(missing_ok=True)
            problems += error.problems
        else:
            atomic_write_text(path, nbformat.writes(notebook) + "\n")
    return problems


@contextmanager
def released(course: Path) -> Iterator[Path]:
    """Give a temporary folder with what `lessons/` should hold: nbgrader's own release of every lesson.

    nbgrader works there with the course's configuration, and without a gradebook.
    Raises CourseError where a lesson cannot be built.
    """
    curriculum = load_curriculum(course)
    problems = refresh(course)
    if problems:
        raise CourseError(problems)
    with TemporaryDirectory(prefix="release-") as folder:
        root = Path(folder)
        (root / SOURCES).symlink_to((course / SOURCES).resolve())
        config = PyFileConfigLoader("nbgrader_config.py", path=str(course / "autograder")).load_config()
        config.merge(Config({"CourseDirectory": {"root": folder}, **WITHOUT_GRADEBOOK}))
        for lesson in curriculum.lessons:
            directory = CourseDirectory(config=config, assignment_id=lesson.name)
            try:
                GenerateAssignment(coursedir=directory, config=config).start()
            except NbGraderException as error:
                raise CourseError(f"{SOURCES}/{lesson.name}: nbgrader cannot release it: {error}") from error
        for file in curriculum.files:
            shutil.copyfile(course / SOURCES / file, root / LESSONS / file)
        yield root / LESSONS


def files_in(folder: Path) -> dict[str, Path]:
    """Find the files in a folder, by their paths inside it; what Jupyter and Python leave behind is none.

    Nor is the page that `make lab` writes for one student, nor what lesson 12 trains.
    """
    left_behind = {".ipynb_checkpoints", "__pycache__", PAGE, RUNS}
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not left_behind & set(path.relative_to(folder).parts)
    }


def curriculum_file(course: Path) -> Path | None:
    """Return the file for what students may see of the curriculum; None if the course has no package."""
    folder = course / "course_lib" / "curriculum"
    return folder / CURRICULUM.name if folder.is_dir() else None


def write_curriculum(course: Path) -> list[str]:
    """Write the part of the curriculum that students may see, and return the names of changed files."""
    path = curriculum_file(course)
    text = public_json(load_curriculum(course))
    if path is None or (path.is_file() and path.read_text(encoding="utf-8") == text):
        return []
    atomic_write_text(path, text)
    public_curriculum.cache_clear()
    return [path.relative_to(course).as_posix()]


def build(course: Path) -> list[str]:
    """Write `lessons/` and `curriculum.json`, and return the files that changed.

    Files in `lessons/` that come from no source are left alone.
    """
    changed = write_curriculum(course)
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="course build", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing to lessons/, and refuse what is not in order"
    )
    parser.add_argument(
        "--course", type=Path, default=COURSE, help="the folder of the course (default: this one)"
    )
    options = parser.parse_args(arguments)
    try:
        if options.check:
            from autograder.release.validate import refusals

            problems = refusals(options.course)
            if problems:
                raise CourseError(problems)
            print(f"{LESSONS}/ is what the sources give, every solution passes, and every stub fails.")
        else:
            changed = build(options.course)
            print("\n".join(f"wrote {name}" for name in changed) or f"{LESSONS}/ is up to date")
    except CourseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
