"""A small course with a gradebook, created once and copied for each test that grades in it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.nbgrader import autograde, regrade
from autograder.results.local_executor import SharedExecutor
from tests.autograder.nbgrader.classroom import Classroom, release
from tests.autograder.nbgrader.stand_in import CONFIG
from tests.autograder.small_course import SmallCourse


@pytest.fixture(scope="session")
def released_course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small released course with a gradebook. Tests must not change it."""
    course = SmallCourse.make(tmp_path_factory.mktemp("released") / "course")
    release(course.root)
    return course.root


@pytest.fixture(scope="session")
def made(released_course: Path, tmp_path_factory: pytest.TempPathFactory) -> SmallCourse:
    """The released course with a stand-in for running notebooks. Tests must not change it."""
    course = SmallCourse(shutil.copytree(released_course, tmp_path_factory.mktemp("made") / "course"))
    path = course.root / "autograder/nbgrader_config.py"
    path.write_text(path.read_text(encoding="utf-8") + CONFIG, encoding="utf-8")
    return course


@pytest.fixture
def classroom(made: SmallCourse, tmp_path: Path) -> Classroom:
    """A copy of the released course, in which students can hand in and be graded."""
    shutil.copytree(made.root, tmp_path / "course")
    return Classroom(tmp_path / "course")


@pytest.fixture(scope="module")
def workers() -> Iterator[SharedExecutor]:
    """Workers shared by all tests of a module, because starting them takes longer than grading."""
    shared = SharedExecutor(idle_seconds=600)
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def kept_workers(workers: SharedExecutor) -> Iterator[None]:
    """Keep the workers of this process for the next grading run of the module, as Formgrader does."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (autograde, regrade):
            patch.setattr(module, "SharedExecutor", lambda *_: workers)
        yield
