"""Functions for notebooks that start training runs in the background and read their metrics."""

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

from course_lib.errors import BadInputError
from course_lib.file_locks import try_lock
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.configs.schema import yaml_value
from course_lib.translation.train.metrics import MetricsRow

#: How long a run may take to stop. It saves a checkpoint first.
_SECONDS_TO_STOP = 120.0


def rows_so_far(run_folder: str | Path) -> list[MetricsRow]:
    """Return the rows of a run's `metrics.jsonl`, or an empty list if the file doesn't exist yet.

    The run may be writing at the same time, so a last line without a line feed is ignored.
    """
    try:
        text = RunFolder(Path(run_folder).expanduser()).metrics.read_text("utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.split("\n")[:-1] if line]


class BackgroundRun:
    """A training run in separate processes, started and monitored by a notebook.

    Interrupting a cell of the notebook doesn't stop the run, but `stop` does.
    """

    def __init__(self, *, folder: Path, process: "subprocess.Popen[bytes]") -> None:
        self.folder = folder
        self._process = process

    @classmethod
    def start(
        cls,
        config: str,
        run_folder: str | Path,
        *overrides: str,
        processes: int = 1,
        restart: bool = False,
    ) -> "BackgroundRun":
        """Start a run, and return it.

        `config` is the name or the path of a config, `overrides` are of the form "section.key=value", and
        `processes` is the number of training processes. By default, an earlier run in the folder is resumed.
        With `restart`, it is stopped if it is still in progress, and deleted.

        Raises BadInputError if a run is in progress in the folder, unless `restart` can stop it, and if the
        folder contains files but no run. With `restart`, also raises it if the folder contains anything that
        a run would not have written.
        """
        folder = Path(run_folder).expanduser()
        run = RunFolder(folder)
        if restart and folder.exists():
            _require_only_a_run(folder)
        elif not restart:
            run.require_run_or_empty()
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "course_lib.translation.train", config]
        if processes > 1:
            launcher = ["course_lib.translation.launch", "--standalone", f"--nproc-per-node={processes}"]
            command[2:2] = [*launcher, "-m"]
        with run.output.open("ab") as log:
            # The run's processes inherit the lock with their output file, so it is held until all have ended.
            if not try_lock(log):
                if not restart:
                    raise _in_progress(folder)
                _stop_earlier(folder, log)
            if restart:
                _delete(folder)
            log.truncate(0)
            # Otherwise the file would name an earlier process until the new one has started.
            run.process.unlink(missing_ok=True)
            process = subprocess.Popen(
                [*command, f"run_folder={yaml_value(str(folder))}", *overrides],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Request plain lines: otherwise the run inherits the notebook's settings for coloured output.
                env={**os.environ, "TERM": "dumb", "NO_COLOR": "1", "FORCE_COLOR": "", "COLUMNS": "160"},
                # Interrupting the notebook must not interrupt the run.
                start_new_session=True,
            )
        # Another notebook, or this one after a restart of its kernel, needs the process id to stop the run.
        run.process.write_text(f"{process.pid} {platform.node()}\n", "utf-8")
        return cls(folder=folder, process=process)

    @property
    def running(self) -> bool:
        """Whether the run is in progress."""
        return self._process.poll() is None

    def rows(self) -> list[MetricsRow]:
        """Return the rows of metrics that the run has written so far."""
        return rows_so_far(self.folder)

    def last_line(self) -> str:
        """Return the last non-blank line of the run's output, or an empty string if there is none."""
        text = RunFolder(self.folder).output.read_text("utf-8", errors="replace")
        lines = text.replace("\r", "\n").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def wait(self) -> int:
        """Wait until the run has ended. Return its exit code, which is 0 for success."""
        return self._process.wait()

    def stop(self) -> None:
        """Stop the run with a signal, so that it saves a checkpoint, and wait until it has ended."""
        if self.running:
            self._process.terminate()
        self.wait()


def _stop_earlier(folder: Path, log: BinaryIO) -> None:
    """Stop the run that holds the lock of `log`, and wait until this process has the lock."""
    try:
        number, host = RunFolder(folder).process.read_text("utf-8").split()
        if host == platform.node():
            os.kill(int(number), signal.SIGTERM)
    except (OSError, ValueError):
        raise _in_progress(folder) from None
    end = time.monotonic() + _SECONDS_TO_STOP
    while not try_lock(log):
        if host != platform.node() or time.monotonic() > end:
            raise _in_progress(folder)
        time.sleep(0.05)


def _in_progress(folder: Path) -> BadInputError:
    return BadInputError(
        f"{folder}: a run is still in progress in this folder. Stop it first, or choose another folder."
    )


def _require_only_a_run(folder: Path) -> None:
    """Raise BadInputError unless the folder is empty, or contains the files of a run and nothing else."""
    run = RunFolder(folder)
    found = {path.name for path in folder.iterdir()}
    others = run.other_files()
    if found and not found & {run.output.name, run.metrics.name}:
        others = sorted(found)
    if others:
        raise BadInputError(
            f"{folder}: this folder holds something other than a run ({others[0]}), so it is not "
            "deleted. Choose another folder."
        )


def _delete(folder: Path) -> None:
    """Empty the metrics file, and delete everything else in the folder except the output."""
    run = RunFolder(folder)
    with run.metrics.open("ab") as metrics:
        if not try_lock(metrics):  # A run that was started in a terminal has locked it.
            raise _in_progress(folder)
        metrics.truncate(0)
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path not in (run.output, run.metrics):
                path.unlink()
