"""Grade a notebook of two cells, to see whether grading works on this machine."""

import os

from autograder.judge.job import Cell, Job
from autograder.judge.notebook_run import LessonSide, run
from autograder.sandbox.archive import pack_files, whole_course
from autograder.sandbox.confinement import Confinement
from autograder.sandbox.fork_server import Nursery
from autograder.sandbox.limits import Limits
from course_lib.curriculum.course_file import CourseError

_STUDENTS = "import torch\n\ndef double(x):\n    return 2 * x\n\nprint(double(21))"
_LOCKED = "import torch\n\nassert double(torch.ones(2)).tolist() == [2.0, 2.0]"


def grade_a_notebook(confinement: Confinement) -> float:
    """Start a sandbox and a kernel, run a student's cell in it, judge it, and give the seconds it took.

    Raises CourseError where it doesn't come to its end, or to another result than it should.
    """
    cells = (Cell("students", _STUDENTS, False, False), Cell("locked", _LOCKED, True, False))
    job = Job("trial", cells, (), Limits(restarts=1))
    nursery = Nursery(confinement)
    nursery.start()
    course = pack_files(whole_course())
    try:
        result = run(job, LessonSide(course, {}, {}), nursery)
        shown = [
            str(output.get("text") or output.get("evalue")) for cell in result.outputs for output in cell
        ]
        if shown != ["42\n"] or result.violations:
            told = "\n".join(dict.fromkeys([*result.violations, *shown, nursery.said()]))
            raise CourseError(
                "a notebook of two cells was graded for a trial: expected that the student's prints 42 and "
                f"that the locked one passes, came:\n{told}"
            )
    finally:
        os.close(course)
        nursery.close()
    return result.seconds
