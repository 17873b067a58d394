"""Grade a notebook of two cells, to test whether grading works on this machine."""

import os

from autograder.judge.job import Cell, Job
from autograder.judge.lesson_context import LessonContext
from autograder.judge.notebook_run import run
from autograder.sandbox.archive import pack_files, whole_course
from autograder.sandbox.confinement import Confinement
from autograder.sandbox.fork_server import ForkServer
from autograder.sandbox.limits import Limits
from course_lib.curriculum.course_file import CourseError

_STUDENTS_CELL = "import torch\n\ndef double(x):\n    return 2 * x\n\nprint(double(21))"
_LOCKED_CELL = "import torch\n\nassert double(torch.ones(2)).tolist() == [2.0, 2.0]"


def run_smoke_test(confinement: Confinement) -> float:
    """Run a student's cell in a sandboxed kernel, judge it, and return the time in seconds.

    Raises CourseError if grading fails or gives a wrong result.
    """
    cells = (
        Cell("students", _STUDENTS_CELL, judged=False, optional=False),
        Cell("locked", _LOCKED_CELL, judged=True, optional=False),
    )
    job = Job("smoke-test", cells, (), Limits(restarts=1))
    fork_server = ForkServer(confinement)
    fork_server.start()
    course = pack_files(whole_course())
    try:
        result = run(job, LessonContext(course, {}, {}), fork_server)
        texts = [
            str(output.get("text") or output.get("evalue")) for cell in result.outputs for output in cell
        ]
        if texts != ["42\n"] or result.violations:
            found = "\n".join(dict.fromkeys([*result.violations, *texts, fork_server.log_tail()]))
            raise CourseError(
                "Grading a notebook of two cells failed. Expected the student's cell to print 42 and the "
                f"locked cell to pass, got:\n{found}"
            )
    finally:
        os.close(course)
        fork_server.close()
    return result.seconds
