"""Misconception files: the course's are valid, and an invalid one is rejected with all of its problems."""

import builtins
import dis
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from autograder.judge.lesson_view import lesson_view
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.misconceptions import (
    Misconception,
    MisconceptionError,
    PatchError,
    misconceptions_of,
    wrong_numbers_of,
)
from course_lib.checks.exercises.registry import catalogue, misconceptions_file
from course_lib.curriculum import public_curriculum
from course_lib.curriculum.course_file import load_curriculum
from course_lib.transformer import attention_scores

COURSE = Path(__file__).parents[3]
SOURCE = "def double(x):\n    return 2 * x\n"
VALID = """
[[double]]
name = "tripled"
statement = "it is tripled"
hint = "Two times."
source = "nowhere"
patch = [{ find = "2", replace = "3" }]
"""


def problems(folder: Path, text: str) -> list[str]:
    """Return the problems that the loader finds in a file with this text."""
    file = folder / "misconceptions.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(MisconceptionError) as refused:
        misconceptions_of(file, "double", SOURCE)
    return str(refused.value).splitlines()


@pytest.mark.parametrize("lesson", public_curriculum().lessons, ids=lambda lesson: lesson.name)
def test_every_file_is_valid_and_about_exercises_of_its_lesson(lesson) -> None:
    file = misconceptions_file(lesson)
    entries = [catalogue()[name] for name in lesson.written]
    assert all(entry.misconceptions for entry in entries)
    tables = tomllib.loads(file.read_text("utf-8"))
    shared = {**tables.pop("sources", {}), **tables.pop("equivalents", {})}
    assert sorted(tables) == sorted(entry.name for entry in entries)
    assert set(shared) <= set(tables)
    # A message can insert the statement after "the likely cause is that".
    statements = [
        mistake.statement
        for entry in entries
        if isinstance(entry, ExerciseCheck)
        for mistake in entry.misconceptions
    ]
    assert [statement for statement in statements if statement.startswith("if ")] == []


def global_names(code: CodeType) -> Iterator[str]:
    """Yield the global names that code and the functions in it read."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from global_names(constant)


@pytest.mark.parametrize(
    "exercise",
    [entry for entry in catalogue().values() if isinstance(entry, ExerciseCheck)],
    ids=lambda one: one.name,
)
def test_a_misconception_uses_no_undefined_name(exercise: ExerciseCheck) -> None:
    """A patch with an undefined name would match any student's code that raises the same NameError."""
    module = sys.modules[exercise.reference.__module__]
    for mistake in exercise.misconceptions:
        code = compile(exercise.source_with(mistake), mistake.name, "exec")
        stored = {each.argval for each in dis.get_instructions(code) if each.opname.startswith("STORE_")}
        within = {
            each.argval
            for constant in code.co_consts
            if isinstance(constant, CodeType)
            for each in dis.get_instructions(constant)
            if each.opname.startswith("STORE_")
        }
        known = stored | within | vars(module).keys() | vars(builtins).keys() | {"__name__"}
        assert set(global_names(code)) <= known, mistake.name


def test_a_valid_misconception_is_read_and_applied(tmp_path: Path) -> None:
    file = tmp_path / "misconceptions.toml"
    file.write_text(VALID, encoding="utf-8")
    (tripled,) = misconceptions_of(file, "double", SOURCE)
    assert tripled.apply(SOURCE) == "def double(x):\n    return 3 * x\n"
    assert not tripled.exclusive
    with pytest.raises(PatchError, match="occurs 2 times"):
        tripled.apply(SOURCE * 2)


def test_an_exercise_has_a_source_for_misconceptions_without_one(tmp_path: Path) -> None:
    file = tmp_path / "misconceptions.toml"
    without = VALID.replace('source = "nowhere"\n', "").replace("tripled", "thrice")
    file.write_text('[sources]\ndouble = "somewhere"\n' + VALID + without, encoding="utf-8")
    assert [known.source for known in misconceptions_of(file, "double", SOURCE)] == ["nowhere", "somewhere"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("hint =", "hnit =", "unknown key 'hnit'; known keys: name, statement, hint"),
        ('hint = "Two times."', "", "the key 'hint' is missing"),
        ('source = "nowhere"', "", "the key 'source' is missing"),
        ('"Two times."', "2", "hint: expected str, got 2"),
        ("replace =", "with =", "patch: unknown key 'with'; known keys: find, replace"),
        ('find = "2"', 'find = "x"', "the patch looks for 'x', which occurs 2 times, not once"),
        ('find = "2"', 'find = "y"', "the patch looks for 'y', which occurs 0 times, not once"),
        ("[[double]]", "[double]", "double: expected a list of tables, each headed [[double]]"),
        ("[[double]]", "[[double]", "not valid TOML"),
    ],
)
def test_an_invalid_misconception_is_refused(tmp_path: Path, before: str, after: str, expected: str) -> None:
    found = problems(tmp_path, VALID.replace(before, after))
    assert any(expected in problem for problem in found), found
    assert all(problem.startswith(f"{tmp_path.name}/misconceptions.toml: ") for problem in found)


def test_a_common_misconception_replaces_the_result_of_functions_and_modules() -> None:
    doubled = Misconception("doubled", "", "", "", patch=(), result="2 * result")
    for source in (SOURCE, "class Double:\n    def forward(self, x):\n        return 2 * x\n"):
        names: dict[str, Any] = {}
        exec(doubled.apply(doubled.apply(source)), names)
        double = names["double"] if "double" in names else names["Double"]().forward
        assert double(3) == 24


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    found = problems(tmp_path, VALID + VALID + VALID.replace("hint", "why") + VALID.replace('"2"', '"5"'))
    assert len(found) == 4
    assert "'tripled' is used 3 times" in found[-1]


def test_a_wrong_number_needs_a_value(tmp_path: Path) -> None:
    file = tmp_path / "misconceptions.toml"
    file.write_text('[[half]]\nname = "twice"\nvalue = "2"\nhint = "Divide."\n', encoding="utf-8")
    with pytest.raises(MisconceptionError, match="half, twice: value: expected int, got '2'"):
        wrong_numbers_of(file, "half")


def test_student_code_that_is_graded_cannot_read_them() -> None:
    curriculum = load_curriculum(COURSE)
    for lesson in curriculum.lessons:
        assert not [name for name in lesson_view(curriculum, lesson) if "misconceptions" in name]


def test_without_a_file_there_are_none() -> None:
    assert ExerciseCheck(attention_scores).misconceptions == ()
