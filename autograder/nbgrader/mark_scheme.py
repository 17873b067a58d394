"""Model answers and mark schemes for the people who grade the explanations."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution
from traitlets import Unicode

from autograder.submissions.repair import MARK_SCHEME

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


class ShowMarkScheme(NbGraderPreprocessor):
    """A preprocessor that adds the model answer and mark scheme below each explanation in a graded notebook.

    Both come from the solution notebook, because nbgrader's gradebook keeps only the cleared cell.
    """

    solutions = Unicode("", help="The folder of the solution notebooks").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Add the cells with the model answers and mark schemes to one notebook."""
        names = resources["nbgrader"]
        solution = Path(self.solutions, names["assignment"], f"{names['notebook']}.ipynb")
        schemes = mark_schemes(solution) if solution.is_file() else {}
        cells: list[NotebookNode] = []
        for cell in nb.cells:
            cells.append(cell)
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
            if is_grade(cell) and is_solution(cell) and grade_id in schemes:
                known = schemes[grade_id]
                heading = "**Model answer and mark scheme, for graders only**"
                text = f"{heading}\n\n{known.model_answer}\n\n{known.scheme}"
                name = f"{MARK_SCHEME}-{grade_id}"
                cells.append(new_markdown_cell(text, id=name, metadata={"tags": [MARK_SCHEME]}))
        nb.cells = cells
        return nb, resources
