"""Notebooks in the format of built lessons, with the reference's code in place of a student's."""

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from course_lib import transformer
from course_lib.student.parts import LESSONS

Change = Callable[[dict[str, str]], None]


def reference_code(exercise: str) -> str:
    return inspect.getsource(inspect.unwrap(getattr(transformer, exercise))).rstrip("\n")


def stub(exercise: str) -> str:
    """Return a stub for an exercise."""
    kind = "class" if inspect.isclass(getattr(transformer, exercise)) else "def"
    error = f'raise NotImplementedError("{exercise} is yours to write: lesson 00, exercise 1 of 3")'
    if kind == "def":
        return f"def {exercise}(*arguments):\n    {error}"
    return f"class {exercise}(nn.Module):\n    def __init__(self, *sizes):\n        {error}"


def setup_code(lesson: str) -> str:
    """Return a setup cell that imports earlier lessons' parts from the reference, among other names."""
    earlier = [name for other, names in LESSONS.items() if other < min(lesson, "12") for name in names]
    given = ["AttentionFunction", "TransformerConfig", "evaluating", *earlier]
    return "\n".join(
        [
            "import math",
            "from collections.abc import Callable, Iterable, Mapping, Sequence",
            "from typing import TypeVar",
            "import torch",
            "import torch.distributed as dist",
            "from jaxtyping import Bool, Float, Int",
            "from torch import Tensor, nn",
            "from torch.optim import Optimizer",
            "from torch.optim.lr_scheduler import LambdaLR",
            "from a_package_that_no_cluster_has import charts",
            "from course_lib.checks import check",
            f"from course_lib.transformer import {', '.join(given)}",
            'Item = TypeVar("Item")',
            'raise RuntimeError("only the imports of this cell may be run")',
        ]
    )


def cell(name: str, source: str, *, solution: bool, kind: str = "code") -> dict[str, Any]:
    marks = {
        "cell_type": kind,
        "checksum": "0" * 32,
        "grade": False,
        "grade_id": name,
        "locked": not solution,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }
    lines = re.findall(r".*\n|.+", source)
    return {"cell_type": kind, "id": name, "metadata": {"nbgrader": marks}, "source": lines}


class Student:
    """A student's folder of lessons."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code = {name: reference_code(name) for names in LESSONS.values() for name in names}
        self.setup = {lesson: setup_code(lesson) for lesson in LESSONS}

    def write(self) -> Path:
        for lesson in LESSONS:
            self.write_lesson(lesson, self.cells(lesson))
        return self.folder

    def cells(self, lesson: str) -> list[dict[str, Any]]:
        text = {"cell_type": "markdown", "id": "text", "metadata": {}, "source": ["# A lesson"]}
        scratch = {"cell_type": "code", "id": "see", "metadata": {"tags": ["see"]}, "source": "1 / 0"}
        number = cell("predict_it", "predict_it = 1 / 0", solution=True)
        check = cell("check_it", 'check("it", it)', solution=False)
        solutions = [cell(name, self.code[name], solution=True) for name in LESSONS[lesson]]
        return [text, cell("setup", self.setup[lesson], solution=False), number, *solutions, scratch, check]

    def write_lesson(self, lesson: str, cells: list[dict[str, Any]]) -> Path:
        path = self.folder / lesson / f"{lesson}.ipynb"
        path.parent.mkdir(exist_ok=True)
        metadata = {"course": {"lesson": lesson, "version": "0.1.0"}}
        notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
        path.write_text(json.dumps(notebook, indent=1), encoding="utf-8")
        return path

    def leave_only(self, *exercises: str) -> None:
        """Leave all other exercises unwritten, which saves the search for the parts that differ."""
        self.code |= {name: stub(name) for name in self.code if name not in exercises}

    def swap(self, exercise: str, right: str, wrong: str) -> None:
        assert self.code[exercise].count(right) == 1
        self.code[exercise] = self.code[exercise].replace(right, wrong)


@pytest.fixture
def student(tmp_path: Path) -> Student:
    return Student(tmp_path)
