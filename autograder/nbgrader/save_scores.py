"""Write a notebook's automatic scores to the gradebook."""

from typing import Any

from nbformat import NotebookNode
from nbgrader.api import Comment, Grade, Gradebook
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import SaveAutoGrades
from nbgrader.utils import compute_checksum, determine_grade, is_grade, is_solution, is_task

from autograder.nbgrader.gradebook import by_cell


class SaveScores(SaveAutoGrades):
    """nbgrader's SaveAutoGrades, with one transaction for each notebook instead of one for each cell."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Write the scores of a notebook's cells, and add the comment "No response." to unchanged answers.

        Cells without automatic points, and cells that a person has graded, are marked for manual grading.
        Raises NbGraderException if the gradebook lacks a cell, because the lesson wasn't released again.
        """
        names = resources["nbgrader"]
        with Gradebook(names["db_url"]) as gradebook:
            submitted = gradebook.find_submission_notebook(
                names["notebook"], names["assignment"], names["student"]
            )
            grades, comments = by_cell(gradebook, submitted, Grade), by_cell(gradebook, submitted, Comment)
            graded = {cell.metadata.nbgrader.grade_id for cell in nb.cells if is_grade(cell)}
            answers = {
                cell.metadata.nbgrader.grade_id for cell in nb.cells if is_solution(cell) or is_task(cell)
            }
            if unknown := sorted((graded - grades.keys()) | (answers - comments.keys())):
                raise NbGraderException(
                    f"the gradebook doesn't have {', '.join(unknown)}. Run `nbgrader generate_assignment "
                    f"{names['assignment']}`, which keeps all grades."
                )
            for cell in nb.cells:
                if is_grade(cell):
                    grade = grades[cell.metadata.nbgrader.grade_id]
                    grade.auto_score, _ = determine_grade(cell, self.log)
                    grade.needs_manual_grade = grade.manual_score is not None or grade.auto_score is None
                if is_solution(cell) or is_task(cell):
                    unchanged = cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
                    comment = comments[cell.metadata.nbgrader.grade_id]
                    comment.auto_comment = "No response." if unchanged and not is_task(cell) else None
            gradebook.db.commit()
        return nb, resources
