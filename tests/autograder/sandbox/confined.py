"""Run code as a student's kernel does: confined, and in its own process."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from autograder.sandbox import bubblewrap
from autograder.sandbox.confinement import MECHANISMS, SANDBOX_FILES, probe
from autograder.sandbox.limits import Limits

#: The combinations of mechanisms under which grading may run, the strongest first.
WAYS = (MECHANISMS, ("bubblewrap", "seccomp"), ("landlock", "seccomp"))

#: The program that runs the code. `inherited` is a listening socket like those of a kernel. If an
#: operation is denied, the exception is printed.
_PROGRAM = """
import ctypes, json, os, socket, sys
from pathlib import Path
task = json.loads(sys.argv[1])
from autograder.sandbox.limits import Limits, apply_resource_limits
from autograder.sandbox.landlock import restrict
from autograder.sandbox.system_calls import deny_system_calls
inherited = socket.create_server(("127.0.0.1", 0))
scratch = Path(task["scratch"])
os.chdir(scratch)
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
if task["mechanisms"]:
    apply_resource_limits(Limits(**task["limits"]))
if "landlock" in task["mechanisms"]:
    restrict([Path(path) for path in task["readable"]], [scratch], [])
if "seccomp" in task["mechanisms"]:
    deny_system_calls()
names = globals() | task["names"]
try:
    exec(task["code"], names)
except (OSError, MemoryError, ValueError) as error:
    print("refused:", type(error).__name__, error)
"""


def skip_where_missing(mechanisms: Sequence[str]) -> None:
    """Skip a test, with a reason, if this machine lacks one of the mechanisms."""
    for name, reason in probe().reasons:
        if name in mechanisms:
            pytest.skip(reason)


def run(
    code: str,
    mechanisms: Sequence[str],
    around: Path,
    limits: Limits | None = None,
    scratch_bytes: int = 2**20,
    **names: object,
) -> subprocess.CompletedProcess[str]:
    """Run code, with `names` as its global variables, in a scratch folder, confined by some mechanisms.

    Without bubblewrap, the scratch folder is in `around`.
    """
    skip_where_missing(mechanisms)
    scratch = bubblewrap.SCRATCH if "bubblewrap" in mechanisms else around / "scratch"
    if "bubblewrap" not in mechanisms:
        scratch.mkdir(exist_ok=True)
    readable = (*bubblewrap.environment_paths(), *SANDBOX_FILES)
    task = {
        "mechanisms": list(mechanisms),
        "code": code,
        "scratch": str(scratch),
        "readable": [str(path) for path in readable],
        "limits": asdict(limits or Limits()),
        "names": {name: str(value) if isinstance(value, Path) else value for name, value in names.items()},
    }
    command = [sys.executable, "-c", _PROGRAM, json.dumps(task)]
    if "bubblewrap" in mechanisms:
        command = bubblewrap.command(command, readable, None, scratch_bytes)
    variables = {**bubblewrap.VARIABLES, "HOME": str(scratch), "TMPDIR": str(scratch)}
    return subprocess.run(
        command, env=variables, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def as_root() -> bool:
    """Return whether the tests run as root, which Linux restricts less."""
    return os.geteuid() == 0
