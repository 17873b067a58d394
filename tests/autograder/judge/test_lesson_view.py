"""The copy of the course that a submission sees: no answers, and everything that it needs."""

import ast
import hashlib
import subprocess
import sys
from functools import cache
from pathlib import Path

import nbformat
import pytest

from autograder.judge.lesson_source import withheld_exercises
from autograder.judge.lesson_view import lesson_view, without_bodies
from autograder.release.build import COURSE
from autograder.release.validate import BOILERPLATE, MIN_SECRET_LENGTH
from course_lib.checks.engine.candidate import Candidate, Fixture, Request
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import Reply
from course_lib.checks.exercises.registry import catalogue
from course_lib.curriculum.course_file import LESSONS, Lesson, load_curriculum
from tests.autograder.small_course import LESSON, SmallCourse

CURRICULUM = load_curriculum(COURSE)
WRITE = {entry.name: entry.write for lesson in CURRICULUM.lessons for entry in lesson.exercises}
#: Lines that any Python file or training loop may contain.
IDIOMS = {
    "for name in names:",
    "for parameter in model.parameters():",
    "if dist.is_initialized():",
    "raise ValueError(",
    "optimizer.step()",
    "scheduler.step()",
} | BOILERPLATE
by_lesson = pytest.mark.parametrize("lesson", CURRICULUM.lessons, ids=lambda lesson: lesson.name)


def exercise(name: str) -> ExerciseCheck:
    entry = catalogue()[name]
    assert isinstance(entry, ExerciseCheck)
    return entry


@cache
def view_of(lesson: str) -> dict[str, bytes]:
    return lesson_view(CURRICULUM, next(one for one in CURRICULUM.lessons if one.name == lesson))


@cache
def to_write(name: str) -> set[str]:
    """Return the lines that students write, both as in the course and as `ast.unparse` formats them."""
    source = exercise(name).source
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.FunctionDef | ast.ClassDef)
    functions = [definition] if isinstance(definition, ast.FunctionDef) else definition.body
    lines: list[str] = []
    for function in functions:
        if isinstance(function, ast.FunctionDef) and (function is definition or function.name in WRITE[name]):
            body = function.body[ast.get_docstring(function) is not None :]
            lines += source.splitlines()[body[0].lineno - 1 : body[-1].end_lineno]
            lines += "\n".join(map(ast.unparse, body)).splitlines()
    return {line.strip() for line in lines if len(line.strip()) >= MIN_SECRET_LENGTH} - IDIOMS


@by_lesson
def test_no_line_that_students_write_is_in_the_view(lesson: Lesson) -> None:
    withheld = withheld_exercises(CURRICULUM, lesson)
    assert {entry.name for entry in lesson.exercises} <= withheld.keys()
    # An earlier lesson's reference may contain the same line, e.g. `self.dropout = nn.Dropout(dropout)`.
    earlier = {line for name in WRITE.keys() - withheld.keys() for line in to_write(name)}
    for path, content in view_of(lesson.name).items():
        text = content.decode("utf-8", "replace")  # The corpus is compressed.
        for name in withheld:
            assert not [line for line in to_write(name) - earlier if line in text], (path, name)


def test_the_lines_that_are_looked_for_are_those_of_the_solutions() -> None:
    """Show that the test above can find these lines."""
    assert "return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])" in to_write("attention_scores")
    for name in WRITE:
        module = sys.modules[exercise(name).reference.__module__]
        text = Path(str(module.__file__)).read_text(encoding="utf-8")
        assert [line for line in to_write(name) if line in text], name


class FixtureRecorder(LocalBackend):
    """A backend that records the names of the fixtures in the requests."""

    def __init__(self, found: object) -> None:
        super().__init__(found)
        self.names: set[str] = set()

    def ask(self, request: Request) -> Reply:
        values: list[object] = [*request.arguments, *request.keywords.values()]
        while values:
            value = values.pop()
            if isinstance(value, Fixture):
                self.names.add(value.name)
                values += [*value.arguments, *value.keywords.values()]
            elif isinstance(value, tuple):
                values += value
        return super().ask(request)


@by_lesson
@pytest.mark.usefixtures("shapes_unchecked")
def test_every_fixture_that_the_checks_use_is_there(lesson: Lesson) -> None:
    fixtures = b"".join(content for path, content in view_of(lesson.name).items() if "/fixtures/" in path)
    for entry in lesson.exercises:
        backend = FixtureRecorder(exercise(entry.name).reference)
        for probe in exercise(entry.name).probes:
            probe.run(Candidate(backend), "graded")
        assert not [name for name in backend.names if f"\ndef {name}(".encode() not in fixtures], entry.name


@by_lesson
def test_earlier_lessons_are_as_they_are_and_the_checks_are_not_there(lesson: Lesson) -> None:
    view = view_of(lesson.name)
    withheld = withheld_exercises(CURRICULUM, lesson)
    for name in WRITE.keys() - withheld.keys():
        # Compare unparsed code, because the view generates a file from its syntax tree if the file also
        # contains a part of a later lesson.
        module = exercise(name).reference.__module__.replace(".", "/")
        written_anew = ast.unparse(ast.parse(view[f"{module}.py"].decode()))
        assert ast.unparse(ast.parse(exercise(name).source)) in written_anew
    told = [path for path in view if "/checks/" in path and "/fixtures/" not in path]
    assert {Path(path).stem for path in told} == {
        "__init__",
        "call_recorder",
        "candidate",
        "kept_values",
        "local_backend",
        "reply",
        "serialization",
        "server",
        "tracebacks",
        "transport",
    }
    progress = {Path(path).name for path in view if "/progress/" in path}
    assert progress == {"__init__.py"}
    assert b"misconception" not in b"".join(view.values()).lower()


def starts_the_lab(cell: nbformat.NotebookNode) -> bool:
    """Return whether a cell shows the runs of the last lesson's lab, which affect no grade."""
    return cell.id.startswith("13-final-lab-see-")


@by_lesson
def test_what_the_lesson_imports_is_there(lesson: Lesson) -> None:
    view = view_of(lesson.name)
    notebook = nbformat.read(COURSE / LESSONS / lesson.name / f"{lesson.name}.ipynb", as_version=4)
    statements = [
        statement
        for cell in notebook.cells
        if cell.cell_type == "code" and not starts_the_lab(cell)
        for statement in ast.parse(cell.source).body
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("course_lib")
    ]
    assert statements
    for statement in statements:
        place = str(statement.module).replace(".", "/")
        text = view.get(f"{place}.py", view.get(f"{place}/__init__.py"))
        assert text is not None, statement.module
        tree = ast.parse(text)
        names = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        names |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        names |= {ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign)}
        folders = {Path(path).parent.name for path in view if Path(path).parents[1].as_posix() == place}
        assert {alias.name for alias in statement.names} <= names | folders


def test_of_the_lab_only_what_lessons_need_is_there() -> None:
    view = view_of("13-final-lab")
    shown = {path for path in view if path.startswith("course_lib/translation/")}
    assert {Path(path).parent.name for path in shown if path.endswith(".py")} == {
        "translation",
        "configs",
        "data",
        "corpora",
    }
    assert {Path(path).stem for path in shown if Path(path).parent.name in ("translation", "data")} == {
        "__init__"
    }
    assert not [path for path in shown if b"all_reduce" in view[path]]


@pytest.mark.slow
def test_all_modules_of_the_emptiest_view_can_be_imported(tmp_path: Path) -> None:
    view = view_of("00-orientation")
    modules = sorted(
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in view
        if path.endswith(".py") and not path.endswith("__main__.py")
    )
    told = run(
        tmp_path,
        view,
        f"for name in {modules}: importlib.import_module(name)\n"
        "from course_lib.checks import check\n"
        "check('attention_scores', globals())\n"
        "try: course_lib.transformer.pairwise_differences(None)\n"
        "except NotImplementedError as error: print(error)\n",
    )
    assert told.splitlines() == [
        "The judge checks attention_scores outside this notebook.",
        "pairwise_differences belongs to lesson 00, which is being graded, so the reference is not available "
        "here",
    ]


def run(folder: Path, view: dict[str, bytes], code: str) -> str:
    for path, content in view.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    before = f"import importlib, sys; sys.path.insert(0, {str(folder)!r}); import course_lib\n"
    asked = [sys.executable, "-I", "-c", before + code]
    return subprocess.run(asked, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_the_same_course_gives_the_same_bytes() -> None:
    again = (
        "from autograder.release.build import COURSE\nfrom autograder.judge.lesson_view import lesson_view\n"
        "from course_lib.curriculum.course_file import load_curriculum\nimport hashlib\n"
        "curriculum = load_curriculum(COURSE)\nview = lesson_view(curriculum, curriculum.lessons[6])\n"
        "print(hashlib.sha256(repr(list(view.items())).encode()).hexdigest())"
    )
    view = lesson_view(CURRICULUM, CURRICULUM.lessons[6])
    here = hashlib.sha256(repr(list(view.items())).encode()).hexdigest()
    there = subprocess.run([sys.executable, "-c", again], check=True, capture_output=True, text=True).stdout
    assert there.strip() == here


def test_a_course_with_other_lessons_withholds_its_own_exercises(small: SmallCourse) -> None:
    curriculum = load_curriculum(small.root)
    text = lesson_view(curriculum, curriculum.lessons[0])["course_lib/transformer/attention.py"].decode()
    assert curriculum.lessons[0].name == LESSON
    assert "query @ key" not in text
    assert "kept @ value" in text  # scaled_dot_product_attention isn't an exercise of this lesson


def test_what_only_withheld_code_uses_goes_with_it() -> None:
    module = """
import math
import torch
from torch import Tensor, nn

# The answer is 42.
_ANSWER: int = 42
_FACTOR, _OTHER = 2, 3

def _inner():
    return _ANSWER

def _helper():
    return _inner() * math.pi

def public(x: Tensor):
    return _FACTOR

def withheld(x: Tensor):
    'Say the answer.'
    return _helper() + torch.ones(1)
"""
    text = without_bodies(module.encode(), {"withheld": "it is yours"}).decode()
    assert (
        text
        == """from torch import Tensor, nn
_FACTOR, _OTHER = (2, 3)

def public(x: Tensor):
    return _FACTOR

def withheld(x: Tensor):
    \"\"\"Say the answer.\"\"\"
    raise NotImplementedError('it is yours')
"""
    )
