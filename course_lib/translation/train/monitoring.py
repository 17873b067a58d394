"""Functions for notebooks that start training runs in the background and read their metrics."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from course_lib.errors import BadInputError
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.train.metrics import MetricsRow

#: The file with the output of a background run.
_OUTPUT = "output.txt"


def rows_so_far(run_folder: str | Path) -> list[MetricsRow]:
    """Return the rows of a run's `metrics.jsonl`, or an empty list if the file doesn't exist yet.

    The run may be writing at the same time, so a last line without a line feed is ignored.
    """
    try:
        text = RunFolder(Path(run_folder)).metrics.read_text("utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.split("\n")[:-1] if line]


class BackgroundRun:
    """A training run in separate processes, started and monitored by a notebook.

    `config` is the name or the path of a config, `overrides` are of the form "section.key=value", and
    `processes` is the number of training processes. Interrupting a cell of the notebook doesn't stop the run,
    but `stop` does. By default, an earlier run in the folder is resumed. With `restart`, it is deleted first;
    BadInputError is raised if the folder contains files but no run.
    """

    def __init__(
        self,
        config: str,
        run_folder: str | Path,
        *overrides: str,
        processes: int = 1,
        restart: bool = False,
    ) -> None:
        self.folder = Path(run_folder)
        if restart and self.folder.exists():
            self._delete()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log = self.folder / _OUTPUT
        command = [sys.executable, "-m", "course_lib.translation.train", config]
        if processes > 1:
            launcher = ["course_lib.translation.launch", "--standalone", f"--nproc-per-node={processes}"]
            command[2:2] = [*launcher, "-m"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, f"run_folder={self.folder}", *overrides],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Request plain lines: otherwise the run inherits the notebook's settings for coloured output.
                env={**os.environ, "TERM": "dumb", "NO_COLOR": "1", "FORCE_COLOR": "", "COLUMNS": "160"},
                # Interrupting the notebook must not interrupt the run.
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether the run is in progress."""
        return self._process.poll() is None

    def rows(self) -> list[MetricsRow]:
        """Return the rows of metrics that the run has written so far."""
        return rows_so_far(self.folder)

    def last_line(self) -> str:
        """Return the last non-blank line of the run's output, or an empty string if there is none."""
        lines = self._log.read_text("utf-8", errors="replace").replace("\r", "\n").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def wait(self) -> int:
        """Wait until the run has ended. Return its exit code, which is 0 for success."""
        return self._process.wait()

    def stop(self) -> None:
        """Stop the run with a signal, so that it saves a checkpoint, and wait until it has ended."""
        if self.running:
            self._process.terminate()
        self.wait()

    def _delete(self) -> None:
        run = RunFolder(self.folder)
        written_by_a_run = (_OUTPUT, run.config.name, run.metrics.name)
        if any(self.folder.iterdir()) and not any((self.folder / name).exists() for name in written_by_a_run):
            raise BadInputError(
                f"{self.folder}: this folder holds something other than a run, so it is not deleted. Choose "
                "another folder."
            )
        shutil.rmtree(self.folder)
