"""Run nbgrader commands in a course's grading folder."""

import os
import subprocess
import sys
from pathlib import Path


def try_nbgrader(classroom: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run an nbgrader command, ignoring any gradebook set in the user's environment."""
    environment = {key: value for key, value in os.environ.items() if key != "COURSE_GRADEBOOK"}
    return subprocess.run(
        [Path(sys.executable).with_name("nbgrader"), *command],
        cwd=classroom,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def nbgrader(classroom: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run an nbgrader command, and fail the test if the command fails."""
    done = try_nbgrader(classroom, *command, **variables)
    assert done.returncode == 0, f"nbgrader {' '.join(command)}:\n{done.stdout}{done.stderr}"
    return done
