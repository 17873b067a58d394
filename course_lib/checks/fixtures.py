"""The catalogue of fixtures: callables that a probe may hand to a student's object, built from plain data.

A lesson that needs one more (a model, an optimiser) adds it here.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from course_lib.checks.candidate import Fixture


def multiply(factor: Tensor) -> Fixture:
    """Stand in for dropout: a callable that multiplies by a known pattern of zeros and twos."""
    return Fixture("multiply", {"factor": factor})


def _multiply(factor: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: x * factor.to(x.dtype)


_BUILDERS: dict[str, Callable[..., Any]] = {"multiply": _multiply}


def realise(fixture: Fixture) -> Any:
    """Make the callable that a fixture describes."""
    if fixture.name not in _BUILDERS:
        raise ValueError(f"no fixture is called {fixture.name!r}; there are: {', '.join(sorted(_BUILDERS))}")
    return _BUILDERS[fixture.name](**fixture.settings)
