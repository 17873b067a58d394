"""The model answers and mark schemes of explanations, read from solution notebooks."""

import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbgrader.utils import is_grade, is_solution

_SCHEME = re.compile(r"^.*BEGIN MARK SCHEME.*\n([\s\S]*?)^.*END MARK SCHEME.*$\n?", re.MULTILINE)
_CRITERION = re.compile(r"^- (\d+(?:\.\d+)?) points?: (.*(?:\n {2,}\S.*)*)", re.MULTILINE)
_HEADING = re.compile(r"^#{2,6} .*$", re.MULTILINE)


@dataclass(frozen=True)
class Criterion:
    """One item of a mark scheme: a requirement for an answer, and the points for it."""

    points: float
    text: str


@dataclass(frozen=True)
class MarkScheme:
    """A question, its model answer and its mark scheme, as Markdown."""

    question: str = ""
    model_answer: str = ""
    scheme: str = ""

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """The items of the scheme that begin with their points, as in "- 1 point: ..."."""
        return tuple(
            Criterion(float(points), " ".join(text.split()))
            for points, text in _CRITERION.findall(self.scheme)
        )


def mark_schemes(solution: Path) -> dict[str, MarkScheme]:
    """Return the mark schemes of the explanations in a solution notebook, keyed by cell name.

    The question is the text below the last heading of the Markdown cell above the explanation.
    """
    found: dict[str, MarkScheme] = {}
    above = ""
    for cell in nbformat.read(solution, as_version=4).cells:
        if is_grade(cell) and is_solution(cell):
            scheme = _SCHEME.search(cell.source)
            answer = _SCHEME.sub("", cell.source).strip()
            found[cell.metadata.nbgrader.grade_id] = MarkScheme(
                _HEADING.split(above)[-1], answer, scheme[1].strip() if scheme else ""
            )
        above = cell.source if cell.cell_type == "markdown" else ""
    return found
