"""Find out from a traceback where in a student's code an exception was raised, and whether on purpose."""

import dis
import os
import traceback
from pathlib import Path
from types import TracebackType

_STANDARD_LIBRARY = os.path.dirname(traceback.__file__)

#: The folder `course_lib`, with a separator at its end.
_COURSE = f"{Path(__file__).parents[2]}{os.sep}"


def student_line(trace: TracebackType | None) -> str:
    """Return the source line of the innermost frame in a student's cell, or "" if there is none."""
    lines = [
        frame.line or ""
        for frame in traceback.extract_tb(trace)
        # Skip installed packages and the generated methods of dataclasses, whose file is "<string>": students
        # wrote neither.
        if not (_in_library(frame.filename) or _in_course(frame.filename) or frame.filename == "<string>")
    ]
    return lines[-1] if lines else ""


def raised_on_purpose(trace: TracebackType | None, by_course: bool = True) -> bool:
    """Return whether a traceback ends at a `raise` or `assert` statement outside of libraries.

    `by_course` states whether a statement in the course's own code, such as a reference, counts.
    """
    if trace is None:
        return False
    trace = _end(trace)
    code = trace.tb_frame.f_code
    if _in_library(code.co_filename) or (_in_course(code.co_filename) and not by_course):
        return False
    return dis.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


def ends_in_other_code(trace: TracebackType | None) -> bool:
    """Return whether the function at a traceback's end does more than raise a NotImplementedError."""
    if trace is None:
        return False
    code = _end(trace).tb_frame.f_code
    names = {*code.co_names, *code.co_freevars} - {"NotImplementedError"}
    return bool(names) or code.co_nlocals > code.co_argcount + code.co_kwonlyargcount


def _end(trace: TracebackType) -> TracebackType:
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _in_course(filename: str) -> bool:
    return filename.startswith(_COURSE)


def _in_library(filename: str) -> bool:
    """Return whether a file belongs to Python or to an installed package other than this course."""
    # Search the whole path: users install packages into their own folders, and Debian's Python and Colab use
    # "dist-packages".
    installed = "site-packages" in filename or "dist-packages" in filename
    installed = installed or filename.startswith(("<frozen ", _STANDARD_LIBRARY))
    return installed and not _in_course(filename)
