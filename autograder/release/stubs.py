"""What stands in a released notebook in place of a solution: a stub that names its exercise and lesson."""

import re

from nbformat import NotebookNode
from nbgrader.preprocessors import ClearSolutions
from traitlets import Dict, Unicode

#: What nbgrader puts in a solution's place, before the name is known: one line, which keeps its indentation.
UNNAMED = "a stub without a name"

#: A region of an exercise: `### BEGIN SOLUTION package.module:function` or `...:Class.method`.
REGION = re.compile(r"BEGIN SOLUTION \S+:(\S+)")


class NamedStubs(ClearSolutions):
    """nbgrader's ClearSolutions, with stubs that name what is to be written.

    nbgrader has one stub for all solutions. Here each region of an exercise gets one that raises
    NotImplementedError with the exercise's name, and a prediction waits for a number.
    """

    code_stub = Dict({"python": UNNAMED}).tag(config=True)
    text_stub = Unicode("*Your answer here.*").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Clear a notebook's solutions, and take out what only the solution notebook needs."""
        self._lesson = nb.metadata.course.lesson
        self._exercises = [cell.id for cell in nb.cells if REGION.search(cell.source)]
        nb.metadata.course.pop("inputs", None)
        return super().preprocess(nb, resources)

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict, cell_index: int
    ) -> tuple[NotebookNode, dict]:
        """Clear one cell, then put the names into its stubs, in order."""
        regions = REGION.findall(cell.source)
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        if cell.cell_type == "code" and not regions:
            cell.source = cell.source.replace(UNNAMED, f"{cell.id} = None  # your number here")
        for name in regions:
            cell.source = cell.source.replace(UNNAMED, self._stub(cell.id, name), 1)
        return cell, resources

    def _stub(self, exercise: str, name: str) -> str:
        number, count = self._exercises.index(exercise) + 1, len(self._exercises)
        return (
            f'raise NotImplementedError("{name} is yours to write: '
            f'lesson {self._lesson[:2]}, exercise {number} of {count}")'
        )
