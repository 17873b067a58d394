"""What checks have found, as data: for a grader who counts mistakes. A student reads it in words."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

Kind = Literal["right", "wrong", "unwritten", "forbidden", "out-of-time", "kernel-died", "missing", "error"]


@dataclass(frozen=True)
class Finding:
    """What one check found out about one exercise or prediction."""

    name: str
    verdict: Kind
    misconceptions: tuple[str, ...] = ()
    """The names of the known mistakes that explain it."""
    says: tuple[str, ...] = ()
    """What each of them is, as a clause that follows the exercise's name."""
    forbidden: tuple[str, ...] = ()
    """The functions that were called although the exercise rules them out."""
    points: float | None = None
    """The points that are left, where the check was graded."""
    most: float | None = None
    look_at: str = ""
    """What a person should look at, in words, where there is such a thing."""


_watchers: list[list[Finding]] = []


@contextmanager
def watching() -> Iterator[list[Finding]]:
    """Collect what the checks inside the `with` find."""
    findings: list[Finding] = []
    _watchers.append(findings)
    try:
        yield findings
    finally:
        _watchers.remove(findings)


def note(finding: Finding) -> None:
    """Tell those who watch."""
    for findings in _watchers:
        findings.append(finding)
