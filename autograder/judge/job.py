"""The input and output of a worker: plain data, so that the parent process doesn't need torch."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from nbformat import NotebookNode, from_dict

from autograder.sandbox.limits import Limits


class NotComputedError(RuntimeError):
    """The error raised if a job could not be run. The message says why."""


@dataclass(frozen=True)
class Cell:
    """A code cell of a submission, with the information that decides whether and where it runs."""

    id: str
    source: str
    judged: bool
    """Whether this is a locked cell, which the judge runs."""
    optional: bool
    """Whether the cell may be skipped if no graded cell depends on it."""
    released: bool = False
    """Whether the cell is unchanged since the lesson's release."""


@dataclass(frozen=True)
class Job:
    """The input for one run of a notebook, with everything that determines its result."""

    lesson: str
    cells: tuple[Cell, ...]
    files: tuple[tuple[str, bytes], ...]
    """The files next to the notebook, by path."""
    limits: Limits
    version: str = ""
    """The version of the checks: see `autograder.results.version.checks_version`."""

    @cached_property
    def depends_on(self) -> dict[str, str]:
        """Hashes of the parts that determine the result, keyed "submission", "checks" and "limits"."""
        return {
            "submission": digest_of(
                [asdict(replace(cell, source="") if cell.judged else cell) for cell in self.cells],
                [(path, hashlib.sha256(data).hexdigest()) for path, data in self.files],
            ),
            "checks": digest_of(
                sorted((cell.id, cell.source) for cell in self.cells if cell.judged), self.version
            ),
            "limits": digest_of(asdict(self.limits)),
        }

    @cached_property
    def digest(self) -> str:
        """A hash of the job's content, used as the name of its result."""
        return digest_of(self.lesson, self.depends_on)


def digest_of(*content: object) -> str:
    """Return a hash of values that can be written as JSON, such as a job's lesson and `Job.depends_on`."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass
class Result:
    """The result of a job."""

    outputs: list[list[NotebookNode]]
    """The outputs of each cell. Cell n has the execution count n, whether or not it had to run."""
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The findings of the checks (`course_lib.checks.engine.findings.Finding`), by cell id."""
    violations: list[str] = field(default_factory=list)
    """Limits that the code exceeded, and other failures, as sentences."""
    warnings: list[str] = field(default_factory=list)
    """Passages in the code that a person should review."""
    mechanism: str = ""
    """The mechanisms that confined the code."""
    seconds: float = 0.0

    def to_json(self) -> bytes:
        """Serialise the result, without its time, as one line of JSON. Equal results produce equal bytes."""
        content = {name: value for name, value in vars(self).items() if name != "seconds"}
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes, seconds: float) -> "Result":
        """Parse the output of `to_json`, and add the time, which it doesn't contain.

        Raises ValueError if the data is invalid.
        """
        try:
            content = json.loads(data)
            content["outputs"] = [[from_dict(output) for output in cell] for cell in content["outputs"]]
            return cls(**content, seconds=seconds)
        except (TypeError, LookupError, RecursionError) as error:
            raise ValueError(f"it cannot be parsed: {error}") from None
