"""Replaces the checks where a submission is graded: the judge's process runs the real ones."""

from collections.abc import Mapping

__all__ = ["CheckError", "check"]


class CheckError(AssertionError):
    """A failed check."""


def check(name: str, names: Mapping[str, object], **options: object) -> None:
    """Print who runs this check."""
    print(f"{name} is checked by the judge, outside of this notebook.")
