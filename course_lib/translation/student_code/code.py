"""While a student's code runs: what it raises is told by its own cell, and what it prints is kept back."""

import builtins
import contextlib
import sys
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from course_lib.errors import BadInputError
from course_lib.student.parts import Parts, PartsError
from course_lib.translation.training.distributed import has_lost_another

_LONGEST = 200
#: What the code of every cell has in the name of its file.
_CELL = ".ipynb, cell "


class EndedAloneError(BadInputError):
    """BadInputError in the middle of an update: the others wait, and nothing can be agreed on with them."""


class KeptBack:
    """Stands in for `print` in every cell of a student's: a thousand updates would print a thousand times."""

    def __init__(self) -> None:
        self.cells: set[str] = set()
        """Those that have printed, as their code names them."""

    def __call__(self, *values: object, **options: Any) -> None:
        """Note who prints; to a file of the student's own, print."""
        if options.get("file") not in (None, sys.stdout, sys.stderr):
            builtins.print(*values, **options)
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and _CELL not in frame.f_code.co_filename:
            frame = frame.f_back
        if frame is not None:
            self.cells.add(frame.f_code.co_filename)


@contextlib.contextmanager
def naming_the_cell(parts: Parts | None) -> Iterator[None]:
    """Turn an error on its way out of a student's code into BadInputError: the cell, the line, the error.

    Of the cells that the error came through, the innermost is named. What comes from elsewhere passes; but
    where a student's code has ended another process, this one ends in a line as well.
    """
    try:
        yield
    except PartsError as error:
        raise BadInputError(str(error)) from None
    except BadInputError:
        raise
    except Exception as error:
        if parts is None:
            raise
        if has_lost_another(error):
            raise EndedAloneError(
                "another process has ended, and this one with it; see what it says"
            ) from None
        where = _innermost(error.__traceback__, parts)
        if where is None:
            raise
        # The line goes to a terminal, where the message of an error of torch's may be long.
        message = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")[:_LONGEST]
        raise EndedAloneError(
            f"{where}: your code raised {message}; mend it, run the check of its lesson, save the notebook, "
            "and choose another run_folder, since other code makes another run"
        ) from None


def _innermost(trace: TracebackType | None, parts: Parts) -> str | None:
    yours = set(parts.yours)
    places = {source.location for source in parts.sources if source.exercise in yours}
    found = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in places:
            found = f"{trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return found
