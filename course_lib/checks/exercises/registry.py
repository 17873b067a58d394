"""The checks of all exercises, predictions and files to hand in, by name."""

from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.prediction import PredictionCheck
from course_lib.checks.exercises.final_lab.hand_in import FileCheck
from course_lib.curriculum import Lesson, public_curriculum

#: A check of the course. Each has a `name` and a sequence of `misconceptions`, which is empty for a file.
Check: TypeAlias = ExerciseCheck | PredictionCheck | FileCheck


def probes_of(lesson: Lesson) -> ModuleType:
    """Import and return the module that defines the checks of a lesson."""
    return import_module(f"course_lib.checks.exercises.{lesson.package}.probes")


def misconceptions_file(lesson: Lesson) -> Path:
    """Return the file with the misconceptions of a lesson, which is next to its probes."""
    file = probes_of(lesson).__file__
    assert file is not None
    return Path(file).with_name("misconceptions.toml")


@cache
def catalogue() -> dict[str, Check]:
    """Return all checks by name, in the order of the lessons."""
    found: dict[str, Check] = {}
    for lesson in public_curriculum().lessons:
        file = misconceptions_file(lesson)
        checks: dict[str, Check] = {}
        for variable, entry in vars(probes_of(lesson)).items():
            if isinstance(entry, ExerciseCheck):
                checks[entry.name] = replace(entry, misconceptions_file=file)
            elif isinstance(entry, PredictionCheck):
                name = variable.lower()
                checks[name] = replace(entry, misconceptions_file=file, name=name)
            elif isinstance(entry, FileCheck):
                checks[entry.name] = entry
        found |= {name: checks[name] for name in lesson.checked if name in checks}
    return found


def find(name: str) -> Check:
    """Return the check called `name`. Raises ValueError if there is none."""
    if name not in catalogue():
        raise ValueError(f"there is no check called {name!r}; known names: {', '.join(catalogue())}")
    return catalogue()[name]
