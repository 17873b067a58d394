"""Show the people who grade explanations the model answers and mark schemes."""

from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution
from traitlets import Unicode

from autograder.release.mark_scheme import mark_schemes
from autograder.submissions.repair import MARK_SCHEME


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
