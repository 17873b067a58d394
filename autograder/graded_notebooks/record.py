"""The grading record: how a notebook was graded, in the metadata of the graded notebook."""

import json
from pathlib import Path
from typing import Any

from nbformat import NotebookNode, from_dict
from pydantic import BaseModel, ConfigDict

#: The key of the grading record in a notebook's metadata.
GRADING = "course_grading"


class GradingRecord(BaseModel):
    """The grading record of a notebook. Unknown fields are ignored, and a damaged record counts as empty."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    complete: bool = False
    """Whether grading has finished."""
    handed_in: str | None = None
    """The digest of the submission's files: see `Submission.digest`."""
    depends_on: dict[str, str] | None = None
    """The hashes of the parts of the job whose result was inserted: see `Job.depends_on`."""
    mechanism: str = ""
    """The mechanisms that confined the student's code."""
    repairs: list[str] = []
    """Repairs and other problems that look accidental, as sentences."""
    tampering: list[str] = []
    """Changes that look intentional, and passages in the code that a person should review, as sentences."""
    violations: list[str] = []
    """Limits that the code exceeded, and other failures, as sentences."""
    findings: dict[str, Any] = {}
    """The findings of the checks, by cell name: see `Result.findings`."""

    @classmethod
    def of(cls, notebook: NotebookNode) -> "GradingRecord":
        """Return the record of a notebook."""
        try:
            return cls.model_validate(notebook.metadata.get(GRADING, {}))
        except ValueError:
            return cls()

    @classmethod
    def read(cls, path: Path) -> "GradingRecord":
        """Return the record in a notebook's file. It is empty if the file is missing, a link, or damaged."""
        if path.is_symlink() or not path.is_file():
            return cls()
        try:
            return cls.model_validate(json.loads(path.read_bytes())["metadata"][GRADING])
        except (ValueError, LookupError, TypeError, RecursionError):
            return cls()

    def write(self, notebook: NotebookNode) -> None:
        """Write the record into the metadata of a notebook."""
        notebook.metadata[GRADING] = from_dict(self.model_dump(exclude_none=True))
