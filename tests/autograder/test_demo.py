import io
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from autograder.demo import play_class
from tests.autograder.small_course import SmallCourse

pytestmark = pytest.mark.sandbox


def test_a_step_that_fails_ends_the_demo_and_says_why(small: SmallCourse, tmp_path: Path) -> None:
    small.change_source('# %% check="predict_spread"\n', "")
    said = io.StringIO()
    with pytest.raises(subprocess.CalledProcessError) as failed:
        play_class(Console(file=said, width=200), small.root, tmp_path / "class")
    assert failed.value.cmd == ("nbgrader", "generate_assignment", "01-scores")
    assert failed.value.returncode == 1
    assert "These lessons have problems and cannot be released" in said.getvalue()
