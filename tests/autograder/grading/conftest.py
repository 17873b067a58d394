"""A small course with its gradebook, made once and copied for each test that grades in it."""

import shutil
from pathlib import Path

import pytest
from classroom import Classroom, configuration
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from small_course import LESSON, SmallCourse
from stand_in import CONFIG


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> SmallCourse:
    """A small course that is released, gradebook and all. Nothing may be changed in it."""
    course = SmallCourse.make(tmp_path_factory.mktemp("released") / "course")
    path = course.root / "autograder/nbgrader_config.py"
    path.write_text(path.read_text(encoding="utf-8") + CONFIG, encoding="utf-8")
    config = configuration(course.root)
    GenerateAssignment(coursedir=CourseDirectory(config=config, assignment_id=LESSON), config=config).start()
    return course


@pytest.fixture
def classroom(made: SmallCourse, tmp_path: Path) -> Classroom:
    """A copy of it, in which a class can hand in and be graded."""
    shutil.copytree(made.root, tmp_path / "course")
    return Classroom(tmp_path / "course")
