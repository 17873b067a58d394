"""A run seen from outside: what it has written so far, and one that a notebook starts for itself."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from course_lib.errors import BadInputError
from course_lib.translation.training.run_folder import RunFolder

#: What a run that was started here has printed.
_OUTPUT = "output.txt"


def rows_so_far(run_folder: str | Path) -> list[dict[str, Any]]:
    """Give the rows of a run's `metrics.jsonl`: none where there is no such file yet.

    A run may be writing while this reads: a last line without its end is left for the next time.
    """
    try:
        text = RunFolder(Path(run_folder)).metrics.read_text("utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.split("\n")[:-1] if line]


class BackgroundRun:
    """A training run in a process of its own, which the notebook that started it can watch.

    Stopping a cell of the notebook does not stop the run: `stop` does. With `anew`, a run that is kept in the
    folder is thrown away first. Raises BadInputError where the folder holds something else than a run.
    """

    def __init__(self, config: str, run_folder: str | Path, *overrides: str, anew: bool = False) -> None:
        self.folder = Path(run_folder)
        if anew and self.folder.exists():
            self._throw_away()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log = self.folder / _OUTPUT
        command = [sys.executable, "-m", "course_lib.translation.train", config]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, f"run_folder={self.folder}", *overrides],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Plain lines: a notebook's process has settings for coloured output, which are handed on.
                env={**os.environ, "TERM": "dumb", "NO_COLOR": "1", "FORCE_COLOR": "", "COLUMNS": "160"},
                # An interrupt of the notebook is for the notebook alone.
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether the process has still something to do."""
        return self._process.poll() is None

    def rows(self) -> list[dict[str, Any]]:
        """Give what the run has written into its metrics so far."""
        return rows_so_far(self.folder)

    def says(self) -> str:
        """Give the last line that the run has printed; empty where it has printed none."""
        lines = self._log.read_text("utf-8", errors="replace").replace("\r", "\n").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _throw_away(self) -> None:
        run = RunFolder(self.folder)
        written_by_a_run = (_OUTPUT, run.config.name, run.metrics.name)
        if any(self.folder.iterdir()) and not any((self.folder / name).exists() for name in written_by_a_run):
            raise BadInputError(
                f"{self.folder}: expected the folder of a run, to begin anew, and it holds something else; "
                "name another folder"
            )
        shutil.rmtree(self.folder)

    def wait(self) -> int:
        """Wait until the run has ended, and give its exit code: 0 where all went well."""
        return self._process.wait()

    def stop(self) -> None:
        """End the run as a cluster would, with a signal on which it saves; and wait for it."""
        if self.running:
            self._process.terminate()
        self.wait()
