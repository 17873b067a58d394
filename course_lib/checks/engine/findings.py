"""The findings of checks as data, for a grader that counts mistakes. Students read messages instead."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

VerdictName = Literal[
    "right", "wrong", "unwritten", "forbidden", "out-of-time", "kernel-died", "missing", "error"
]


@dataclass(frozen=True)
class Finding:
    """The outcome of one check of one exercise, prediction or submitted file."""

    name: str
    verdict: VerdictName
    misconceptions: tuple[str, ...] = ()
    """The names of the known misconceptions that explain the failure."""
    statements: tuple[str, ...] = ()
    """The statements of these misconceptions, as clauses that follow the exercise's name."""
    forbidden: tuple[str, ...] = ()
    """The functions that were called although the exercise does not allow them."""
    review: str = ""
    """A description of what a person should review; empty if there is nothing."""
    replaced: tuple[str, ...] = ()
    """The student's other exercises that were replaced by the course's code, because they are wrong."""


_recorded: ContextVar[list[Finding] | None] = ContextVar("recorded", default=None)


@contextmanager
def record() -> Iterator[list[Finding]]:
    """Collect the findings of all checks inside the `with` block."""
    findings: list[Finding] = []
    token = _recorded.set(findings)
    try:
        yield findings
    finally:
        _recorded.reset(token)


def emit(finding: Finding) -> None:
    """Add a finding to the list of the `record` block, if there is one."""
    if (findings := _recorded.get()) is not None:
        findings.append(finding)
