"""A made-up lesson in a copy of the course needs only its own files and an entry in `course.toml`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.release.build import COURSE

LESSON = "14-doubling"

REFERENCE = '''"""Doubling."""


def double(x):
    """Return twice x."""
    return 2 * x
'''

PROBES = '''"""Probes of lesson 14."""

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.probe import Draw
from course_lib.checks.engine.reply import Reply
from course_lib.transformer.doubling import double

DOUBLE = ExerciseCheck(double)


@DOUBLE.probe("numbers are doubled")
def _numbers(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(3))
'''

MISCONCEPTION = """[[double]]
name = "tripled"
statement = "the result is tripled"
hint = "Two times, not three times."
source = "none"
patch = [{ find = "2 * x", replace = "3 * x" }]
"""

ENTRY = f'''
[[lessons]]
name = "{LESSON}"
title = "Doubling"
minutes = 5
seed = 3

[[lessons.exercises]]
name = "double"
points = 2
does = "Returns twice its input."
hints = ["Think of a sum.", "Add it to itself.", "Multiply by two."]
deductions = {{ tripled = 1 }}
'''

SOURCE = """# %% [markdown]
# # Doubling

# %% given="setup"
import torch

from course_lib.checks import check

# %% build="double"
### BEGIN SOLUTION course_lib.transformer.doubling:double

# %% [markdown] hints="double"

# %% check="double"
"""

CHECKS = f'''
from pathlib import Path
from autograder.judge.locked_cells import judge
from autograder.release.lessons import write_lessons
from autograder.release.validate import leaks, running
from course_lib.charts import architecture_map
from course_lib.checks import check
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.curriculum.course_file import load_curriculum

course = Path.cwd()
changed = write_lessons(course)
assert "course_lib/curriculum/curriculum.json" in changed
assert "lessons/{LESSON}/{LESSON}.ipynb" in changed
curriculum = load_curriculum(course)
curriculum.lessons[:] = [lesson for lesson in curriculum.lessons if lesson.name == "{LESSON}"]
assert leaks(course, curriculum.lessons[0]) == []
problems = running(course, curriculum, course / "lessons")
assert problems == [], problems

grading = 'check("double", globals(), grading={{"points": 2, "seed": 3, "costs": {{"tripled": 1}}}})'
for code, points in ((lambda x: 3 * x, "1.0"), (lambda x: x + x, None), (lambda x: x - 1, None)):
    output = judge(grading, {{"double": LocalBackend(code)}}, {{"check": check}}).outputs[-1]
    assert output.get("data", {{}}).get("text/plain") == points, output

assert list(curriculum.blocks)[-1] == "double"
assert "double" in str(architecture_map(current="double").to_dict())
print("built, validated, graded and drawn")
'''


@pytest.mark.slow
def test_a_new_lesson_needs_no_other_change(tmp_path: Path) -> None:
    ignore = shutil.ignore_patterns("__pycache__", "*.ipynb", "submitted", "autograded", "feedback", "*.db")
    for folder in ("course_lib", "autograder", "solutions"):
        shutil.copytree(COURSE / folder, tmp_path / folder, ignore=ignore)
    files = {
        "course_lib/transformer/doubling.py": REFERENCE,
        "course_lib/checks/exercises/doubling/__init__.py": '"""Lesson 14."""\n',
        "course_lib/checks/exercises/doubling/probes.py": PROBES,
        "course_lib/checks/exercises/doubling/misconceptions.toml": MISCONCEPTION,
        f"solutions/{LESSON}/{LESSON}.py": SOURCE,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    with (tmp_path / "solutions" / "course.toml").open("a", encoding="utf-8") as course_file:
        course_file.write(ENTRY)
    done = subprocess.run(
        [sys.executable, "-c", CHECKS],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},  # for the notebooks' kernels
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("built, validated, graded and drawn\n")
