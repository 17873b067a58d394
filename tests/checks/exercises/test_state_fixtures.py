"""The fixtures for probes of state that is kept between calls and of the gradient mode."""

from collections.abc import Callable
from functools import lru_cache

import pytest
import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate, Fixture
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import Returned, Value
from course_lib.checks.exercises.fixtures.results import after_another_call, gradients_afterwards


def told(function: object, of: Callable[[Candidate], Fixture], *arguments: object) -> Value:
    """Return the value of a fixture that is built for a function and called with these arguments."""
    candidate = Candidate(LocalBackend(function))
    reply = candidate.fixture(of(candidate)).call(*arguments)
    assert isinstance(reply, Returned)
    return reply.value


@lru_cache
def kept(length: int) -> Tensor:
    return torch.ones(length)


@pytest.mark.parametrize(("function", "expected"), [(torch.ones, 3.0), (kept, 0.0)])
def test_a_result_that_is_kept_shows_that_it_was_overwritten(function: object, expected: float) -> None:
    value = told(function, after_another_call, (3,), 3)
    assert isinstance(value, Tensor)
    assert value.sum() == expected


def test_a_result_that_cannot_be_overwritten_is_no_failure() -> None:
    value = told(lambda x: (x.expand(2, 3), 1), after_another_call, (torch.ones(1, 3),), torch.ones(1, 3))
    assert isinstance(value, tuple)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (torch.no_grad()(lambda: None), None),
        (lambda: torch.set_grad_enabled(True) and None, "on"),
        (lambda: torch.set_grad_enabled(False) and None, "off"),
    ],
)
def test_the_gradient_mode_after_a_call_is_reported(
    function: Callable[[], None], enabled: bool, expected: str | None
) -> None:
    candidate = Candidate(LocalBackend(function))
    reply = candidate.fixture(gradients_afterwards(enabled)).call(candidate)
    assert isinstance(reply, Returned)
    assert reply.value == (expected or ("on" if enabled else "off"))
    assert torch.is_grad_enabled()
