"""A stand-in for running notebooks, used to test everything else: outputs depend only on the source."""

import hashlib
from concurrent.futures import Future
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.utils import is_grade, is_locked

from autograder.judge.job import Job, Result
from autograder.nbgrader.sandboxed_execute import SandboxedExecute
from autograder.results.local_executor import WorkerExecutor


class StandInExecutor(WorkerExecutor):
    """An executor that immediately returns results without outputs."""

    workers = 1

    def submit(self, grade: object, source: object, job: Job) -> Future[Any]:  # type: ignore[override]
        """Return a result without outputs. The job isn't run."""
        future: Future[tuple[bytes, float]] = Future()
        future.set_result((Result([[] for _ in job.cells]).to_json(), 0.0))
        return future


class StandInExecute(SandboxedExecute):
    """A preprocessor that derives each check's points from the checked source, and fails stubs."""

    def _create_executor(self, address: str) -> WorkerExecutor:
        return StandInExecutor()

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Write the outcome of each check into its cell."""
        nb, resources = super().preprocess(nb, resources)
        written = {cell.id: cell.source for cell in nb.cells}
        for cell in nb.cells:
            if is_grade(cell) and is_locked(cell):
                cell.outputs = [self._outcome(written[cell.id.removeprefix("check_")], cell)]
        return nb, resources

    def _outcome(self, source: str, cell: NotebookNode) -> NotebookNode:
        if "raise NotImplementedError" in source or "= None" in source:
            return new_output("error", ename="CheckError", evalue="not written", traceback=["not written"])
        share = hashlib.sha256(source.encode()).digest()[0] / 255
        text = f"{share * cell.metadata.nbgrader.points:.2f}"
        return new_output("execute_result", {"text/plain": text}, execution_count=cell.execution_count)


#: Lines to append to a course's nbgrader_config.py.
CONFIG = """
from nbgrader.preprocessors import AssignLatePenalties, CheckCellMetadata, SaveAutoGrades
c.Autograde.autograde_preprocessors = [
    "tests.autograder.nbgrader.stand_in.StandInExecute",
    SaveAutoGrades,
    AssignLatePenalties,
    CheckCellMetadata,
]
c.AssignLatePenalties.plugin_class = "tests.autograder.nbgrader.stand_in.APointADay"
"""


class APointADay(LateSubmissionPlugin):
    """A plugin that subtracts a point for each day that a submission is late."""

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
        """Return the penalty in points."""
        return total_seconds_late / 86400
