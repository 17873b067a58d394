"""The example call that a check shows for a mistake it doesn't recognise."""

import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from course_lib import transformer
from course_lib.checks.engine.diagnosis import examine
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.messages import failure
from course_lib.checks.exercises.registry import catalogue

pytestmark = pytest.mark.slow


def strange(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function whose results are wrong in a way that no misconception explains."""

    def wrong(*arguments: Any, **keywords: Any) -> Tensor:
        result = right(*arguments, **keywords)
        steps = torch.ones_like(result).cumsum(-1) if result.dim() else 1
        return result + 0.1 * (1.3 * result).sin() * steps

    return wrong


def strange_class(right: type) -> type:
    return type(right.__name__, (right,), {"forward": strange(right.forward)})  # type: ignore[attr-defined]


FUNCTIONS = ("attention_scores", "split_heads")
MODULES = ("FeedForward", "MultiHeadAttention", "EncoderLayer", "PositionalEncoding")
ANSWERS = {name: strange(vars(transformer)[name]) for name in FUNCTIONS} | {
    name: strange_class(vars(transformer)[name]) for name in MODULES
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_pasted_example_gives_the_stated_results(name: str) -> None:
    exercise = catalogue()[name]
    assert isinstance(exercise, ExerciseCheck)
    verdict = examine(exercise, LocalBackend(ANSWERS[name]), "1")
    assert verdict.tier == "numbers"
    assert verdict.example is not None
    *before, call = verdict.example.code
    told = textwrap.dedent(failure(verdict))
    assert all(line in told for line in before)
    results = {exercise.reference: verdict.example.expected, ANSWERS[name]: verdict.example.found}
    for answer, stated in results.items():
        cell: dict[str, Any] = {"torch": torch, name: answer}
        exec("\n".join(before), cell)
        torch.testing.assert_close(eval(call, cell), eval(stated), atol=1e-5, rtol=1e-5, check_dtype=False)
