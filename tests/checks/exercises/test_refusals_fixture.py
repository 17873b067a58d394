"""Required errors: the fixtures that describe them, and every error that an exercise's docstring promises."""

import __future__

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from course_lib.checks.engine import tracebacks
from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.diagnosis import succeeds
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import Raised, value_of
from course_lib.checks.exercises.fixtures.refusals import BY_CHANCE, NOT_REFUSED, REFUSED, refusal
from course_lib.transformer import split_heads
from tests.checks.kill_matrix import exercises


def told(found: Callable[[Any], Any], argument: Any = 12) -> Any:
    candidate = Candidate(LocalBackend(found))
    return value_of(candidate.fixture(refusal(candidate, 12, "layer.bias")).call(argument))


def refuses(kind: type[Exception], message: str) -> Callable[[Any], Any]:
    def call(argument: Any) -> Any:
        raise kind(message)

    return call


def asserts(argument: Any) -> None:
    assert argument == 0, "12 layer.bias"


def test_references_count_as_written_by_hand_where_they_are_installed_among_the_libraries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracebacks, "_STANDARD_LIBRARY", tracebacks._COURSE)
    candidate = Candidate(LocalBackend(split_heads))
    heads = value_of(candidate.fixture(refusal(candidate, 7, 2, passes=False)).call(torch.zeros(1, 3, 7), 2))
    assert heads == REFUSED


@pytest.mark.parametrize("passes", [True, False])
def test_a_library_may_raise_the_required_error(passes: bool) -> None:
    candidate = Candidate(LocalBackend(lambda heads: torch._check_value(heads != 12, lambda: f"{heads}")))
    assert value_of(candidate.fixture(refusal(candidate, 12, passes=passes)).call(12)) == REFUSED


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_another_error_raised_by_an_installed_package_is_no_refusal(folder: str) -> None:
    package: dict[str, Any] = {}
    code = "def refuse(argument):\n    raise ValueError('12 layer')"
    exec(compile(code, f"/usr/local/lib/python3.12/{folder}/torch/functional.py", "exec"), package)

    def call(argument: Any) -> Any:
        return package["refuse"](argument)

    raised = told(call)
    assert isinstance(raised, Raised)
    assert (raised.line, raised.note) == ('return package["refuse"](argument)', "")


class OwnError(ValueError):
    """A student's own exception class."""


@pytest.mark.parametrize("kind", [ValueError, OwnError])
def test_a_message_with_everything_is_accepted(kind: type[Exception]) -> None:
    assert told(refuses(kind, "layer.bias has size 12.")) == REFUSED


@pytest.mark.parametrize(
    ("found", "fact"),
    [
        (refuses(ValueError, "layer.bias has size 120"), "a ValueError without 12 in its message"),
        (refuses(ValueError, "wrong"), "a ValueError without 12 and layer.bias in its message"),
        (refuses(RuntimeError, "12 layer.bias"), "an exception of type RuntimeError"),
        (asserts, "an exception of type AssertionError"),
        (lambda argument: None, NOT_REFUSED),
    ],
)
def test_anything_else_is_described(found: Callable[[Any], Any], fact: str) -> None:
    assert told(found) == fact


@pytest.mark.parametrize(
    "found",
    [
        lambda argument: int("layer.bias"),
        lambda argument: max([]),
        lambda argument: torch.optim.SGD([], lr=0.1),
    ],
)
def test_an_accident_is_no_refusal(found: Callable[[Any], Any]) -> None:
    assert isinstance(told(found), Raised)


def test_a_returned_exception_passes_through() -> None:
    assert told(lambda argument: ValueError("12 layer.bias")) != REFUSED


def test_an_error_by_chance_can_be_told_as_such() -> None:
    for found, expected in ((lambda x: [][x], BY_CHANCE), (refuses(ValueError, "12"), REFUSED)):
        candidate = Candidate(LocalBackend(found))
        assert value_of(candidate.fixture(refusal(candidate, 12, passes=False)).call(12)) == expected


RAISED, RETURNED, ASSERTED = "raise ValueError(", "return ValueError(", "raise AssertionError("

_EMPTY_LIST = "the docstring says nothing about an empty list"

#: Changes to an exercise's errors (numbered from 0) after which it is still accepted, with the reason.
ACCEPTED = {
    ("MultiHeadAttention", 0, ASSERTED): "torch raises its own errors about batch sizes, which are as good",
    ("PositionalEncoding", 0, ASSERTED): "any clear error is accepted, and so are encodings past max_length",
    ("average_checkpoints", 0, RETURNED): _EMPTY_LIST,
    ("average_checkpoints", 0, ASSERTED): _EMPTY_LIST,
}


def promised_errors() -> Iterator[Any]:
    """Yield each exercise whose docstrings promise errors, with the index of each `raise` statement."""
    for exercise in exercises():
        if re.search(r"[Rr]aises\s+\w*Error", exercise.source):
            for number in range(max(1, exercise.source.count(RAISED))):
                yield pytest.param(exercise, number, id=f"{exercise.name}-{number}")


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("other", [RETURNED, ASSERTED])
@pytest.mark.parametrize(("exercise", "number"), list(promised_errors()))
def test_an_error_that_a_docstring_promises_must_be_raised_in_that_form(
    exercise: ExerciseCheck, number: int, other: str
) -> None:
    parts = exercise.source.split(RAISED)
    source = RAISED.join(parts[: number + 1]) + other + RAISED.join(parts[number + 1 :])
    names = dict(vars(sys.modules[exercise.reference.__module__]))
    exec(compile(source, "<changed>", "exec", __future__.annotations.compiler_flag), names)
    accepted = succeeds(exercise, LocalBackend(names[exercise.name]), "promised errors")
    assert accepted == ((exercise.name, number, other) in ACCEPTED)
