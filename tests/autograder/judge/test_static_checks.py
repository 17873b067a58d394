"""Warnings about unusual code that a person should review. No lesson's solution causes one."""

import nbformat
import pytest

from autograder.judge.job import Cell
from autograder.judge.static_checks import static_warnings
from autograder.release.build import COURSE
from autograder.release.solution_notebook import solution_notebook
from course_lib.curriculum.course_file import LESSONS, load_curriculum

FORBIDDEN = {"attend": ["torch.nn.functional.scaled_dot_product_attention"]}


def cell(source: str, **kinds: bool) -> Cell:
    return Cell("attend", source, **({"judged": False, "optional": False} | kinds))


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import ctypes", "it imports ctypes"),
        ("from urllib.request import urlopen", "it imports urllib"),
        (
            "from course_lib.checks.exercises.registry import find",
            "it imports course_lib.checks.exercises.registry",
        ),
        ("class T:\n    def __eq__(self, other): return True", "it uses __eq__"),
        ("torch._C.DisableTorchFunction()", "it uses DisableTorchFunction"),
        ("getattr(object, '__subclasses__')", "it uses __subclasses__"),
        ("%time\nimport subprocess", "it imports subprocess"),
        ("import gc\nF?", "it imports gc"),
        (f"x = '{'%' * 101}'", "it is too long or too deeply nested to be searched for unusual code"),
    ],
)
def test_odd_code_is_told(source: str, told: str) -> None:
    assert told in [line.removeprefix("cell attend: ") for line in static_warnings([cell(source)], {})]


@pytest.mark.parametrize(
    "source",
    [
        "F.scaled_dot_product_attention(q, k, v)",
        "getattr(F, 'scaled_dot_product_attention')(q, k, v)",
        "torch.ops.aten.scaled_dot_product_attention(q, k, v)",
        "from torch.nn.functional import scaled_dot_product_attention as a",
    ],
)
def test_a_forbidden_name_is_told_where_no_call_was_seen(source: str) -> None:
    [told] = static_warnings([cell(source)], FORBIDDEN)
    assert "scaled_dot_product_attention, which an exercise prohibits" in told
    assert static_warnings([cell(source)], FORBIDDEN, observed=FORBIDDEN["attend"]) == []


def test_released_cells_are_not_examined() -> None:
    assert static_warnings([cell("import ctypes", released=True), cell("import gc", judged=True)], {}) == []


def test_code_that_is_no_python_is_not_looked_at() -> None:
    assert static_warnings([cell("import ctypes ("), cell("(" * 5000)], {}) == []


@pytest.mark.parametrize("lesson", load_curriculum(COURSE).lessons, ids=lambda lesson: lesson.name)
def test_no_solution_is_suspicious(lesson) -> None:
    # Build the notebook here, because the files of the solution notebooks don't exist before the first
    # `course build`.
    solution = solution_notebook(COURSE, lesson)
    path = COURSE / LESSONS / lesson.name / f"{lesson.name}.ipynb"
    released = {each.source for each in nbformat.read(path, as_version=4).cells}
    cells = [
        Cell(each.id, each.source, each.id.startswith("check_"), False, each.source in released)
        for each in solution.cells
        if each.cell_type == "code"
    ]
    assert static_warnings(cells, {entry.name: entry.may_not_call for entry in lesson.exercises}) == []
