"""The pre-test and the post-test: the same questions with different numbers, as notebooks for students.

The questions are in `solutions/concept_test.toml`. Each option is computed with the reference, or with one of
its misconceptions, before a test is written.
"""

import hashlib
import math
import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import nbformat
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import course_lib.transformer
from autograder.submissions.reading import SubmittedNotebook
from course_lib.atomic_files import atomic_write_text
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.misconceptions import Misconception
from course_lib.checks.exercises.registry import catalogue
from course_lib.curriculum import public_curriculum
from course_lib.curriculum.course_file import SOURCES, CourseError

#: The questions, in `solutions/`.
QUESTIONS = "concept_test.toml"

#: The two tests, and the names under which students fetch them.
TESTS = {"pre": "concept-test-pre", "post": "concept-test-post"}

#: The name of the correct option. The others have the names of misconceptions.
CORRECT = "correct"

_LETTERS = "abcdef"

#: The seed for the order of the options. With this seed, no letter is correct for more than four questions.
_ORDER = 3

_INTRODUCTION = """\
# A few questions

These questions show your instructor what the course teaches. They don't count towards your grade, and you
get no feedback on them.

Answer without looking anything up. Between the quotation marks below each question, write the letter of the
correct option, as in `{name} = "a"`. If you don't know the answer, leave the quotation marks empty. Save the
notebook and hand it in; you don't need to run it."""


class _Table(BaseModel):
    """A table of `concept_test.toml`. Unknown keys are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Numbers(_Table):
    """The numbers and the options of a question in one of the tests."""

    values: dict[str, str]
    answer: str
    wrong: dict[str, str]
    """The wrong options, keyed by the misconceptions that lead to them."""


class Question(_Table):
    """One question about an exercise, in two versions."""

    name: str
    lesson: str
    exercise: str
    text: str
    call: str
    """A Python expression that computes the answer with the reference."""
    calls: dict[str, str] = {}
    """Expressions, keyed by option, for wrong options that `call` can't compute with a misconception."""
    statements: dict[str, str] = {}
    """Descriptions of wrong options that are not misconceptions of the exercise, keyed by option."""
    pre: Numbers
    post: Numbers

    def numbers(self, test: str) -> Numbers:
        """Return the numbers and options of this question in a test, "pre" or "post"."""
        return self.pre if test == "pre" else self.post

    def options(self, test: str) -> dict[str, str]:
        """Return the names of the options, keyed by letter. Each test has its own order of the options."""
        names = sorted([CORRECT, *self.numbers(test).wrong])
        random.Random(f"{self.name} {test} {_ORDER}").shuffle(names)
        return dict(zip(_LETTERS, names, strict=False))

    def shown(self, test: str) -> str:
        """Return the question and its options in a test, as Markdown."""
        numbers = self.numbers(test)
        texts = {CORRECT: numbers.answer, **numbers.wrong}
        options = [f"- **{letter}**: `{texts[name]}`" for letter, name in self.options(test).items()]
        return "\n".join([self.text.format(**numbers.values), "", *options])

    @property
    def misconceptions(self) -> dict[str, Misconception]:
        """The misconceptions of the exercise, keyed by name."""
        entry = catalogue()[self.exercise]
        return {
            mistake.name: mistake for mistake in entry.misconceptions if isinstance(mistake, Misconception)
        }

    def statement(self, wrong: str) -> str:
        """Return the description of a wrong option, from `statements` or otherwise from its misconception."""
        return self.statements.get(wrong) or self.misconceptions[wrong].statement

    def miscalculated(self, test: str) -> Iterator[str]:
        """Yield a message for each invalid option in a test.

        An option is invalid if its value can't be computed, or if its text differs from the computed value.
        """
        numbers, exercise = self.numbers(test), catalogue()[self.exercise]
        assert isinstance(exercise, ExerciseCheck)
        names: dict[str, Any] = {**vars(course_lib.transformer), "math": math, "tensor": torch.tensor}
        names["t"] = lambda values: torch.tensor(values, dtype=torch.float64)
        for name, text in {CORRECT: numbers.answer, **numbers.wrong}.items():
            own = name == CORRECT or name in self.calls
            mistakes = () if own else (self.misconceptions[name],)
            expression = self.calls.get(name, self.call).format(**numbers.values)
            here = f"question {self.name}, {test}, {name}"
            try:
                found = eval(expression, names | {exercise.name: exercise.with_mistakes(*mistakes)})
                if not _equal(eval(text, {"sin": math.sin}), found):
                    yield f"{here}: expected the computed value, {found}, got {text}"
            except Exception as error:
                yield f"{here}: cannot be computed: {type(error).__name__}: {error}"


class Idea(_Table):
    """A wrong idea that causes misconceptions in several lessons."""

    name: str
    misconceptions: list[str]

    @property
    def members(self) -> set[tuple[str, str]]:
        """The misconceptions that the idea causes, as pairs of the exercise and the misconception's name."""
        return {
            (exercise, mistake.name)
            for exercise, entry in catalogue().items()
            for mistake in entry.misconceptions
            if mistake.name in self.misconceptions or f"{exercise}.{mistake.name}" in self.misconceptions
        }


class ConceptTest(_Table):
    """The contents of `concept_test.toml`: all questions and ideas."""

    questions: list[Question] = Field(min_length=1)
    ideas: list[Idea]

    def version(self, test: str) -> str:
        """Return a short hash of a test as students see it."""
        text = "\n".join(question.name + question.shown(test) for question in self.questions)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def answers(self, notebook: SubmittedNotebook, test: str) -> dict[str, str]:
        """Return the names of the options that a student chose in the notebook of a test, keyed by question.

        The last answer to a question counts. If there is none, or its letter is invalid, the name is empty.
        """
        code = "\n".join(cell.source for cell in notebook.cells if cell.kind == "code")
        found = {}
        for question in self.questions:
            pattern = rf"""^{question.name}[ \t]*=[ \t"'(]*([a-z])[ \t"')]*(#.*)?$"""
            letters = re.findall(pattern, code, re.IGNORECASE | re.MULTILINE)
            found[question.name] = question.options(test).get(letters[-1][0].lower(), "") if letters else ""
        return found


def load(course: Path) -> ConceptTest:
    """Load the concept test of a course.

    Raises CourseError, with a line for each problem, if the test is missing or invalid.
    """
    shown = f"{SOURCES}/{QUESTIONS}"
    try:
        entries = tomllib.loads((course / SOURCES / QUESTIONS).read_text(encoding="utf-8"))
        test = ConceptTest.model_validate(entries)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CourseError(f"{shown}: {error}") from None
    except ValidationError as error:
        invalid = ((".".join(map(str, each["loc"])), each["msg"]) for each in error.errors())
        raise CourseError(f"{shown}, {key}: {message}" for key, message in invalid) from None
    if problems := [*_problems(test)]:
        raise CourseError(f"{shown}, {problem}" for problem in problems)
    return test


def _problems(test: ConceptTest) -> Iterator[str]:
    lessons = {lesson.name: lesson.checked for lesson in public_curriculum().lessons}
    names = Counter(question.name for question in test.questions)
    for question in test.questions:
        here = f"question {question.name}"
        if not question.name.isidentifier() or names[question.name] > 1:
            yield f"{here}: expected a name that is a Python identifier and that no other question has"
        if question.exercise not in lessons.get(question.lesson, ()):
            yield (
                f"{here}: lesson {question.lesson} has no exercise {question.exercise}. Remove the question, "
                "or change its lesson and exercise."
            )
            continue
        known = question.misconceptions.keys() | question.statements.keys()
        if unknown := sorted((question.pre.wrong.keys() | question.post.wrong.keys()) - known):
            yield f"{here}: {', '.join(unknown)}: not misconceptions of {question.exercise}"
        if question.pre.wrong.keys() != question.post.wrong.keys():
            yield f"{here}: expected the same misconceptions in pre and post"
        for numbers in (question.pre, question.post):
            texts = [numbers.answer, *numbers.wrong.values()]
            templates = (question.text, question.call, *question.calls.values())
            try:
                keys = {key for text in templates for _, key, *_ in Formatter().parse(text) if key}
            except ValueError as error:
                yield f"{here}: {error}. To use a brace as text, write it twice"
                break
            if missing := keys - set(numbers.values):
                yield f"{here}: values: {', '.join(sorted(missing))} is missing"
            if len(set(texts)) < len(texts) or not 3 <= len(texts) <= len(_LETTERS):
                yield f"{here}: expected 3 to {len(_LETTERS)} options, all of them different"
    for idea in test.ideas:
        if sum(any(exercise in checks for exercise, _ in idea.members) for checks in lessons.values()) < 2:
            yield f"idea {idea.name}: expected misconceptions of at least two lessons. Remove the idea."
        found = {name for exercise, mistake in idea.members for name in (mistake, f"{exercise}.{mistake}")}
        if unknown := sorted(set(idea.misconceptions) - found):
            yield (
                f"idea {idea.name}: {', '.join(unknown)}: no exercise has this misconception. Remove it from "
                "the idea, or correct its spelling."
            )


def _equal(written: object, computed: object) -> bool:
    """Return whether two values are equal. Numbers may differ by 0.5 percent, because options are rounded."""
    if isinstance(written, int | float) and isinstance(computed, int | float):
        return math.isclose(written, computed, rel_tol=0.005)
    return written == computed


def miscalculated_options(test: ConceptTest) -> list[str]:
    """Return a problem for each option that can't be computed or differs from the value computed for it."""
    return [
        f"{SOURCES}/{QUESTIONS}, {problem}"
        for question in test.questions
        for name in TESTS
        for problem in question.miscalculated(name)
    ]


def write_tests(test: ConceptTest, folder: Path) -> list[Path]:
    """Write the notebooks of both tests into subfolders of `folder`, and return their paths.

    Raises CourseError if an option can't be computed or differs from the value computed for it.
    """
    if problems := miscalculated_options(test):
        raise CourseError(problems)
    return [_write(test, name, folder / assignment) for name, assignment in TESTS.items()]


def _write(test: ConceptTest, name: str, folder: Path) -> Path:
    cells = [new_markdown_cell(_INTRODUCTION.format(name=test.questions[0].name), id="introduction")]
    for number, question in enumerate(test.questions, 1):
        text = f"## Question {number}\n\n{question.shown(name)}"
        cells.append(new_markdown_cell(text, id=f"question_{question.name}"))
        cells.append(new_code_cell(f'{question.name} = ""', id=f"answer_{question.name}"))
    notebook = new_notebook(cells=cells)
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata.course = {"lesson": TESTS[name], "version": test.version(name)}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{TESTS[name]}.ipynb"
    atomic_write_text(path, nbformat.writes(notebook) + "\n")
    return path
