"""How a run shows that it moves: a bar in a terminal, plain lines in a file."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

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


class RunDisplay:
    """The first process's words to the user; the other processes have a silent one."""

    def __init__(self, updates: int, done: int, speaks: bool) -> None:
        self._console = Console(quiet=not speaks, soft_wrap=True, highlight=False, markup=False)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=self._console,
            disable=not (speaks and self._console.is_terminal),
        )
        self._task = self._bar.add_task("updates", total=updates, completed=done, numbers="")

    def __enter__(self) -> "RunDisplay":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def advance(self) -> None:
        """Count one update."""
        self._bar.advance(self._task)

    def numbers(self, row: dict[str, Any], stays: bool) -> None:
        """Show a row of metrics: as a line where it stays or there is no bar, else beside the bar."""
        text = "  ".join(f"{name} {_short(value)}" for name, value in row.items())
        if stays or self._bar.disable:
            self._console.print(text)
        else:
            self._bar.update(self._task, numbers=text)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(text)


@contextmanager
def reading_bar(descriptor: int, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """Show in the terminal how much of a file has been read; call what is given after each piece of it.

    Nothing is shown if `quiet`, where standard error is no terminal, or where it is no file that is read.
    """
    about = os.fstat(descriptor)
    shown = not quiet and stat.S_ISREG(about.st_mode) and sys.stderr.isatty()
    columns = (BarColumn(), DownloadColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as bar:
        task = bar.add_task("", total=about.st_size)

        def advance() -> None:
            if shown:
                bar.update(task, completed=os.lseek(descriptor, 0, os.SEEK_CUR))

        yield advance


def _short(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
