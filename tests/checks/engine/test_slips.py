"""Slips in typing, which are generated from the references."""

import ast
import re

import pytest

from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.slips import slips_in
from course_lib.checks.exercises.registry import catalogue
from tests.benchmarks.battery import Answer, outcome

ADAM = """
def adam_update(parameter, gradient, mean, variance, step, lr, beta1=0.9, beta2=0.98, eps=1e-9):
    mean = beta1 * mean + (1 - beta1) * gradient
    variance = beta2 * variance + (1 - beta2) * gradient**2
    mean_hat = mean / (1 - beta1**step)
    variance_hat = variance / (1 - beta2**step)
    return parameter - lr * mean_hat / (torch.sqrt(variance_hat) + eps), mean, variance
"""


@pytest.mark.parametrize(
    ("right", "typed", "statement"),
    [
        (
            "gradient**2",
            "gradient * 2",
            "those of the course's code with this slip: `*` is used instead of `**`",
        ),
        (
            "mean / (1 - beta1**step)",
            "mean / 1 - beta1**step",
            "with this slip: a pair of parentheses is missing",
        ),
    ],
)
def test_a_slip_is_named(right: str, typed: str, statement: str) -> None:
    assert outcome(Answer("adam_update", ADAM, right=True)).passed
    found = outcome(Answer("adam_update", ADAM.replace(right, typed), right=False))
    assert found.tier == "exact"
    assert statement in " ".join(found.message.split())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a ** b", {"a * b"}),
        ("a * (b + c)", {"a / (b + c)", "a * b + c", "a * (b - c)"}),
        ("(a - b) ** 2", {"(a - b) * 2", "a - b ** 2", "(a + b) ** 2"}),
        ("a - (b - c)", {"a + (b - c)", "a - b - c", "a - (b + c)"}),
        ("a**2 + b**3", {"a * 2 + b**3", "a**2 + b * 3", "a * 2 + b * 3", "a**2 - b**3"}),
        ("f(a, b)", {"f(b, a)"}),
        ("x.mean(dim=1, keepdim=True)", {"x.mean()", "x.mean(dim=1)", "x"}),
        ("torch.sqrt(a)", {"a"}),
        ("~a == b", {"~a != b", "a == b"}),
        ("a < -b", {"a <= -b", "a < b"}),
        ("é * (a + b)", {"é / (a + b)", "é * a + b", "é * (a - b)"}),
    ],
)
def test_slips_change_one_thing(source: str, expected: set[str]) -> None:
    changed = {slip.patch[0][1] for slip in slips_in(source, "the patched code")}
    assert {ast.dump(ast.parse(each)) for each in changed} == {ast.dump(ast.parse(each)) for each in expected}


def test_a_variable_counts_as_an_operand_without_parentheses() -> None:
    slips = slips_in("mean = a - b\nresult = mean / c", "")
    assert "mean = a - b\nresult = a - b / c" in {slip.patch[0][1] for slip in slips}


@pytest.mark.parametrize(
    "name", [each.name for each in catalogue().values() if isinstance(each, ExerciseCheck)]
)
def test_messages_do_not_quote_the_solution(name: str) -> None:
    exercise = catalogue()[name]
    assert isinstance(exercise, ExerciseCheck)
    for slip in slips_in(exercise.source, exercise.source_to_patch):
        quoted = re.findall(r"`(.*?)`", slip.statement)
        assert all(re.fullmatch(r"\w+|[*/@<>=!~+-]+", word) for word in quoted), slip.statement
