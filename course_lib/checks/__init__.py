"""Checks that recognise mistakes: they probe a student's object and compare it with the reference."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_lib.checks.notebook import CheckError, check

__all__ = ["CheckError", "check"]


def __getattr__(name: str) -> object:
    # Import lazily, because importing torch takes seconds, and nbgrader's commands need only
    # `engine.findings`, which doesn't use torch.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from course_lib.checks import notebook

    return getattr(notebook, name)
