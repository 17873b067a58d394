"""Replace solutions with stubs that name their exercise and lesson."""

import re
from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import ClearSolutions
from traitlets import Dict, Unicode

from course_lib.curriculum.stubs import UNWRITTEN

#: The indented text that nbgrader inserts in place of each solution. A named stub then replaces it.
PLACEHOLDER = "a stub without a name"

#: The marker of a solution: `### BEGIN SOLUTION package.module:function` or `...:Class.method`.
REGION = re.compile(r"BEGIN SOLUTION \S+:(\S+)")


class NamedStubs(ClearSolutions):
    """nbgrader's ClearSolutions, with a separate stub for each function or method.

    Each stub raises a NotImplementedError that names its function or method, lesson and exercise. A
    prediction is set to None.
    """

    code_stub = Dict({"python": PLACEHOLDER}).tag(config=True)
    text_stub = Unicode("*Your answer here.*").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Remove the solutions from a notebook, and the metadata that only the solution notebook needs."""
        self._lesson = nb.metadata.course.lesson
        self._exercises = [cell.id for cell in nb.cells if REGION.search(cell.source)]
        nb.metadata.course.pop("inputs", None)
        return super().preprocess(nb, resources)

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], cell_index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Remove the solutions from one cell, then insert its stubs in order."""
        regions = REGION.findall(cell.source)
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        if cell.cell_type == "code" and not regions:
            cell.source = cell.source.replace(PLACEHOLDER, f"{cell.id} = None  # your number here")
        for name in regions:
            cell.source = cell.source.replace(PLACEHOLDER, self._stub(cell.id, name), 1)
        return cell, resources

    def _stub(self, exercise: str, name: str) -> str:
        number, count = self._exercises.index(exercise) + 1, len(self._exercises)
        return (
            f'raise NotImplementedError("{name} {UNWRITTEN}: '
            f'lesson {self._lesson[:2]}, exercise {number} of {count}")'
        )
