"""The type checker that the tests apply to annotated shapes."""

from collections.abc import Callable
from typing import Any

from beartype import beartype
from jaxtyping import config


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check the types and shapes of a function's arguments and of its result in every call.

    Where the checks are disabled, a nested function is returned unchanged, because beartype would decorate it
    again each time the function around it runs.
    """
    is_nested = "<locals>" in getattr(function, "__qualname__", "")
    return function if is_nested and config.jaxtyping_disable else beartype(function)
