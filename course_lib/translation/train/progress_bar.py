"""The progress of a run or a translation: a bar in a terminal, plain lines in a file."""

import contextlib
import math
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from course_lib.translation.train.metrics import MetricsRow


class RunDisplay:
    """The output of a run to the user, with a progress bar in a terminal.

    With `silent`, as on all ranks except rank 0, nothing is shown. At the start, `done` of `total_updates`
    updates have already been completed.
    """

    def __init__(self, total_updates: int, done: int, silent: bool) -> None:
        self._console = Console(quiet=silent, soft_wrap=True, highlight=False, markup=False)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=self._console,
            disable=silent or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("updates", total=total_updates, completed=done, numbers="")

    def __enter__(self) -> "RunDisplay":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self) -> None:
        """Count one update."""
        self._bar.advance(self._task)

    def show_metrics(self, row: MetricsRow, permanent: bool) -> None:
        """Show a row of metrics next to the bar or, without a bar or if `permanent`, on a separate line.

        Without a bar, the line includes the total number of updates and the time that is left.
        """
        numbers = [f"{name} {_short(value)}" for name, value in row.items()]
        if self._bar.disable:
            task = self._bar.tasks[self._task]
            numbers[0] += f" of {task.total:.0f}"
            if task.time_remaining:
                numbers.append(f"about {math.ceil(task.time_remaining / 60)} min left")
        text = "  ".join(numbers)
        if permanent or self._bar.disable:
            self.print(text)
        else:
            self._bar.update(self._task, numbers=text)

    def print(self, text: str) -> None:
        """Print a line. A full disk or a closed pipe behind standard output must not end the run."""
        with contextlib.suppress(OSError):
            self._console.print(text)


@contextmanager
def reading_bar(descriptor: int, quiet: bool) -> Iterator[Callable[[], None]]:
    """Show how much of a regular file has been read. Yield a function that updates the display.

    Nothing is shown if `quiet` is true or if standard error is not a terminal.
    """
    status = os.fstat(descriptor)
    shown = not quiet and stat.S_ISREG(status.st_mode) and sys.stderr.isatty()
    columns = (BarColumn(), DownloadColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as bar:
        task = bar.add_task("", total=status.st_size)

        def advance() -> None:
            if shown:
                bar.update(task, completed=os.lseek(descriptor, 0, os.SEEK_CUR))

        yield advance


def _short(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
