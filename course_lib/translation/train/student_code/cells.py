"""Error messages and output of a student's cells: errors name the cell, and printing is suppressed."""

import builtins
import contextlib
import sys
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from course_lib.errors import BadInputError
from course_lib.student.parts import Parts, PartsError
from course_lib.translation.distributed import DistributedInfo, LostPeerError, lost_peers_reported

_MAX_MESSAGE = 200
#: A part of the file name of every cell's code objects.
_CELL = ".ipynb, cell "


class UpdateFailedError(BadInputError):
    """A BadInputError in the middle of an update, when the other ranks are waiting and can't be notified."""


class SuppressedPrint:
    """A replacement for `print` in a student's cells that suppresses output to the terminal.

    Training calls the cells on every update. The class records which cells tried to print.
    """

    def __init__(self) -> None:
        self.cells: set[str] = set()
        """The file names of the cells that tried to print."""

    def __call__(self, *values: object, **options: Any) -> None:
        """Record the cell that tries to print to the terminal, and write output to other files as usual."""
        if options.get("file") not in (None, sys.stdout, sys.stderr):
            builtins.print(*values, **options)
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and _CELL not in frame.f_code.co_filename:
            frame = frame.f_back
        if frame is not None:
            self.cells.add(frame.f_code.co_filename)


@contextlib.contextmanager
def failing_cell_named(parts: Parts | None, distributed: DistributedInfo) -> Iterator[None]:
    """Within the block, convert exceptions in a student's code to an UpdateFailedError that names the cell.

    If another rank has exited, the error refers to the other rank's message. A PartsError becomes a
    BadInputError. Other exceptions propagate, and so does LostPeerError if `parts` is None.
    """
    try:
        with lost_peers_reported(distributed) if parts else contextlib.nullcontext():
            yield
    except PartsError as error:
        raise BadInputError(str(error)) from None
    except BadInputError:
        raise
    except LostPeerError:
        if parts is None:
            raise
        raise UpdateFailedError("Another process has ended, so this one ends too. See its message.") from None
    except Exception as error:
        where = _innermost_cell(error.__traceback__, parts) if parts else None
        if where is None:
            raise
        # Truncate the message, because torch's may be long.
        message = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")[:_MAX_MESSAGE]
        raise UpdateFailedError(
            f"{where}: your code raised {message}. Fix it, run the check of its lesson, save the notebook, "
            "and choose another run_folder, because changed code needs a new run."
        ) from None


def _innermost_cell(trace: TracebackType | None, parts: Parts) -> str | None:
    yours = set(parts.yours)
    cells = {source.location for source in parts.sources if source.exercise in yours}
    found = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in cells:
            found = f"{trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return found
