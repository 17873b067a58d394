"""Checks that recognise mistakes: they probe a student's object and compare it with the reference."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_lib.checks.notebook import CheckError, check

__all__ = ["CheckError", "check"]


def __getattr__(name: str) -> object:
    # Importing torch takes seconds. nbgrader's commands only read `engine.findings`, and don't need it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from course_lib.checks import notebook

    return getattr(notebook, name)
