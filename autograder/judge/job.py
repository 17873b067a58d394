"""What a worker is given to do, and what it gives back. Plain data: its owner needs no torch."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from nbformat import NotebookNode

from autograder.sandbox.limits import Limits


@dataclass(frozen=True)
class Cell:
    """One code cell."""

    id: str
    source: str
    judged: bool
    """Whether it is a locked cell, which the judge runs."""
    optional: bool
    """Whether it may be left out where nothing that is graded needs it."""
    released: bool = False
    """Whether it is as it came with the lesson."""


@dataclass(frozen=True)
class Job:
    """All that the result of a run depends on."""

    lesson: str
    cells: tuple[Cell, ...]
    files: tuple[tuple[str, bytes], ...]
    """What lies beside the notebook."""
    limits: Limits
    everything: bool = False
    """Whether to run optional cells too."""

    @property
    def digest(self) -> str:
        """The same for the same job."""
        told = {"lesson": self.lesson, "limits": asdict(self.limits), "everything": self.everything}
        told["cells"] = [asdict(cell) for cell in self.cells]
        told["files"] = [(path, hashlib.sha256(content).hexdigest()) for path, content in self.files]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode(errors="surrogatepass")).hexdigest()


@dataclass
class Result:
    """What came of a job."""

    outputs: list[list[NotebookNode]]
    """Of each cell."""
    counts: list[int | None]
    """The number of each cell that ran, from 1."""
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the checks found (`course_lib.checks.engine.findings.Finding`), by the id of the cell."""
    violations: list[str] = field(default_factory=list)
    """What the code did that it may not, in words."""
    suspicions: list[str] = field(default_factory=list)
    """What in the code a person should look at."""
    mechanism: str = ""
    """What confined it."""
    seconds: float = 0.0
