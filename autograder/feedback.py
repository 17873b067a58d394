"""What students may see of their graded notebook."""

from nbformat import NotebookNode
from nbgrader.preprocessors import ClearHiddenTests
from nbgrader.utils import is_grade, is_locked
from traitlets import List

from autograder.mark_scheme import TAG

#: What `course_lib.checks` raises. The class would bring torch along, and nbgrader_config.py needs none.
CHECK_ERROR = "CheckError"


class ForStudents(ClearHiddenTests):
    """nbgrader's ClearHiddenTests, for feedback.

    Plain nbgrader shows hidden tests there twice: in the cell, and in the traceback of an error that the cell
    raised. The mark schemes, which were put in for graders, go too.
    """

    # nbconvert hands this to every preprocessor, and nbgrader warns where it isn't known.
    display_data_priority = List([]).tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Clear a notebook."""
        nb.cells = [cell for cell in nb.cells if TAG not in cell.metadata.get("tags", [])]
        return super().preprocess(nb, resources)

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict, cell_index: int
    ) -> tuple[NotebookNode, dict]:
        """Clear one check cell. Other cells are the student's: markers in them mean nothing."""
        if not (is_grade(cell) and is_locked(cell)):
            return cell, resources
        for output in cell.outputs:
            if output.output_type == "error":
                kind = "" if output.ename == CHECK_ERROR else f"{output.ename}: "
                output.traceback = [kind + output.evalue]
        return super().preprocess_cell(cell, resources, cell_index)
