"""The input and output of a worker: plain data, so that the parent process doesn't need torch."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from nbformat import NotebookNode

from autograder.sandbox.limits import Limits


@dataclass(frozen=True)
class Cell:
    """A code cell."""

    id: str
    source: str
    judged: bool
    """Whether this is a locked cell, which the judge runs."""
    optional: bool
    """Whether it may be skipped if no graded cell depends on it."""
    released: bool = False
    """Whether it is unchanged since the lesson's release."""


@dataclass(frozen=True)
class Job:
    """Everything that determines the result of a run."""

    lesson: str
    cells: tuple[Cell, ...]
    files: tuple[tuple[str, bytes], ...]
    """The files next to the notebook, by path."""
    limits: Limits
    everything: bool = False
    """Whether to run all optional cells as well."""

    @property
    def digest(self) -> str:
        """A hash of the job's content."""
        content = {"lesson": self.lesson, "limits": asdict(self.limits), "everything": self.everything}
        content["cells"] = [asdict(cell) for cell in self.cells]
        content["files"] = [(path, hashlib.sha256(data).hexdigest()) for path, data in self.files]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode(errors="surrogatepass")).hexdigest()


@dataclass
class Result:
    """The result of a job."""

    outputs: list[list[NotebookNode]]
    """The outputs of each cell."""
    counts: list[int | None]
    """The execution count of each cell."""
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The findings of the checks (`course_lib.checks.engine.findings.Finding`), by cell id."""
    violations: list[str] = field(default_factory=list)
    """Limits that the code exceeded, and other failures, as sentences."""
    warnings: list[str] = field(default_factory=list)
    """Passages in the code that a person should review."""
    mechanism: str = ""
    """The mechanisms that confined the code."""
    seconds: float = 0.0
