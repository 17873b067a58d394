"""Course fixtures for the tests of the autograder."""

from pathlib import Path

import pytest

from tests.autograder.small_course import SmallCourse


@pytest.fixture
def small(tmp_path: Path) -> SmallCourse:
    """A small, valid course that has not been built yet."""
    return SmallCourse.make(tmp_path / "course")
