"""Courses to try things on."""

from pathlib import Path

import pytest
from small_course import SmallCourse


@pytest.fixture
def small(tmp_path: Path) -> SmallCourse:
    """A small course that is in order, but not built yet."""
    return SmallCourse.make(tmp_path / "course")
