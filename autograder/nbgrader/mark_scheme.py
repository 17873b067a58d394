"""Model answers and mark schemes for the people who grade the explanations."""

import re
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution
from traitlets import Unicode

#: The tag of the added cells, which keeps them out of the feedback.
TAG = "mark-scheme"

_MARKER = re.compile(r"^.*(BEGIN|END) MARK SCHEME.*$\n?", re.MULTILINE)


class ShowMarkScheme(NbGraderPreprocessor):
    """A preprocessor that adds the model answer and mark scheme below each explanation in a graded notebook.

    Both come from the solution notebook, because nbgrader's gradebook keeps only the cleared cell.
    """

    solutions = Unicode("", help="The folder of the solution notebooks").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Add the cells to one notebook."""
        names = resources["nbgrader"]
        path = Path(self.solutions, names["assignment"], f"{names['notebook']}.ipynb")
        schemes = {cell.id: _MARKER.sub("", cell.source) for cell in nbformat.read(path, as_version=4).cells}
        cells: list[NotebookNode] = []
        for cell in nb.cells:
            cells.append(cell)
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
            if is_grade(cell) and is_solution(cell) and grade_id in schemes:
                text = f"**Model answer and mark scheme, for graders only**\n\n{schemes[grade_id]}"
                cells.append(new_markdown_cell(text, id=f"{TAG}-{grade_id}", metadata={"tags": [TAG]}))
        nb.cells = cells
        return nb, resources
