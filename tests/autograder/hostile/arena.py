"""A small course to attack, and targets around it that attackers would like to reach."""

import contextlib
import hashlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

import course_lib
from tests.autograder.small_course import LESSON as SMALL_LESSON
from tests.autograder.small_course import SmallCourse

LESSON = "01-attention"

MANIFEST = """\
files = ["AGENTS.md"]
# %(manifest)s

[[lessons]]
name = "01-attention"
title = "Attention"
minutes = 10
seed = %(seed)s
files = ["data/words.txt"]

[[lessons.predictions]]
name = "predict_spread"
points = 1

[[lessons.exercises]]
name = "attention_scores"
points = 4
hints = ["Look at the last axis.", "It is a product of matrices.", "Divide by the root."]
deductions = { not_scaled = 2 }
may_not_call = ["torch.einsum"]

[[lessons.exercises]]
name = "attention_weights"
points = 5
hints = ["A softmax.", "The lowest number.", "Zeros afterwards."]
deductions = { minus_a_billion = 1 }

[[lessons.explanations]]
name = "explain_root"
points = 2
"""

SOURCE = """\
# %% [markdown]
# # A small lesson

# %% given="setup"
import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from course_lib.checks import check

# %% predict="predict_spread"
# How far do the dot products of two vectors of 64 numbers spread?

# %% check="predict_spread"

# %% build="attention_scores"
### BEGIN SOLUTION course_lib.transformer.attention:attention_scores

# %% [markdown] hints="attention_scores"

# %% check="attention_scores"

# %% build="attention_weights"
### BEGIN SOLUTION course_lib.transformer.attention:attention_weights

# %% [markdown] hints="attention_weights"

# %% check="attention_weights"

# %%
# A cell to play with.
print(open("data/words.txt").read())

# %% [markdown]
# Why the root?

# %% [markdown] explain="explain_root"
# The variances of independent products add up.
#
# ### BEGIN MARK SCHEME
# - 2 points: says that variances add up. %(scheme)s
# ### END MARK SCHEME
"""

#: A process that records each signal it receives, and continues.
_VICTIM = """\
import signal, sys, time
def caught(number, frame):
    with open(sys.argv[1], "a") as log:
        print(signal.Signals(number).name, file=log, flush=True)
for number in (signal.SIGURG, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, caught)
print("ready", flush=True)
time.sleep(1800)
"""


@dataclass
class Arena:
    """The folders, the secrets and the servers that attacks try to reach."""

    course: Path
    home: Path
    outside: Path
    """A folder in the system's temporary folder."""
    hidden: Path
    """A second folder in the system's temporary folder, with a secret name."""
    neighbour: str
    """A student who handed in correct answers."""
    secrets: dict[str, str]
    """Texts that must not leak, keyed by where they are kept."""
    mark: str
    """The name that attacks give to the processes they start."""
    ports: dict[str, int] = field(default_factory=dict)
    victim: int = 0
    heard: list[str] = field(default_factory=list)
    """The messages and signals that the targets received."""

    @property
    def classroom(self) -> Path:
        """The folder in which nbgrader's commands are run."""
        return self.course / "autograder"

    @property
    def facts(self) -> dict[str, object]:
        """What attackers know: everything but the secrets."""
        return {
            "COURSE": str(self.course),
            "LESSON": LESSON,
            "HOME": str(self.home),
            "OUTSIDE": str(self.outside),
            "NEIGHBOUR": self.neighbour,
            "PASSWORD": "COURSE_DATABASE_PASSWORD",
            "MARK": self.mark,
            "TCP": self.ports.get("TCP", 0),
            "TCP6": self.ports.get("TCP over IPv6", 0),
            "UDP": self.ports.get("UDP", 0),
            "SOCKET": str(self.socket),
            "ABSTRACT": self.abstract,
            "VICTIM": self.victim,
        }

    @property
    def socket(self) -> Path:
        """The path of a listening unix socket, which must be short because the system limits its length."""
        return self.outside / "socket"

    @property
    def abstract(self) -> str:
        """The name of a unix socket in the abstract namespace, which has no file."""
        return f"\0{self.mark}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of nbgrader's commands."""
        inherited = {name: value for name, value in os.environ.items() if name != "COURSE_GRADEBOOK"}
        return inherited | {
            "HOME": str(self.home),
            # Keep Jupyter's own files elsewhere, so that nothing in the home folder should change.
            **{name: str(self.home.parent / name.lower()) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR")},
            "COURSE_DATABASE_PASSWORD": self.secrets["the environment"],
            "COURSE_ARENA": self.mark,
        }

    def strays(self) -> dict[str, Path]:
        """Return the files that attacks try to leave outside the course, keyed by location."""
        return {
            "torch's folder": Path(torch.__file__).parent / f"{self.mark}.txt",
            "the folder of packages": Path(torch.__file__).parents[1] / f"{self.mark}.txt",
            "course_lib's folder": Path(course_lib.__file__).parent / f"{self.mark}.txt",
            "the temporary folder": Path(tempfile.gettempdir()) / f"{self.mark}.txt",
            "the shared memory": Path("/dev/shm") / f"{self.mark}.txt",
        }


def make_arena(root: Path, config: str) -> Arena:
    """Create the arena in a folder, with `config` appended to the course's configuration."""
    kept = {
        place: f"secret{secrets.token_hex(8)}"
        for place in (
            "the environment",
            "the manifest",
            "the mark scheme",
            "the solutions' folder",
            "the course's folder",
            "the gradebook",
            "another student's notebook",
            "another process's command line",
            "the home folder",
            "the folder outside",
            "the list of the temporary folder",
        )
    }
    kept["the hidden seed"] = str(secrets.randbelow(10**9) + 10**9)
    mark = f"hs{secrets.token_hex(4)}"
    outside = Path(tempfile.mkdtemp(prefix=f"{mark}-"))
    hidden = Path(tempfile.mkdtemp(prefix=kept["the list of the temporary folder"]))
    small = SmallCourse.make(root / "course")
    shutil.rmtree(small.root / "solutions" / SMALL_LESSON)
    small.write(
        "solutions/course.toml",
        MANIFEST % {"seed": kept["the hidden seed"], "manifest": kept["the manifest"]},
    )
    small.write(f"solutions/{LESSON}/{LESSON}.py", SOURCE.replace("%(scheme)s", kept["the mark scheme"]))
    small.write(f"solutions/{LESSON}/data/words.txt", "ein Hund\n")
    small.write("solutions/private.txt", kept["the solutions' folder"])
    small.write("canary.txt", kept["the course's folder"])
    with (small.root / "autograder/nbgrader_config.py").open("a", encoding="utf-8") as file:
        file.write(f"\n{config}\n")
    home = root / "home"
    for path, text in {
        home / "canary.txt": kept["the home folder"],
        home / ".ssh" / "id_canary": kept["the home folder"],
        outside / "canary.txt": kept["the folder outside"],
        outside / "folder" / "canary.txt": kept["the folder outside"],
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Arena(small.root, home, outside, hidden, "", kept, mark)


def clear(arena: Arena) -> None:
    """Remove the files and folders outside the test's own folder."""
    for folder in (arena.outside, arena.hidden):
        shutil.rmtree(folder, ignore_errors=True)
    for path in arena.strays().values():
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def inhabited(arena: Arena) -> Iterator[None]:
    """Run servers and a process that records signals, and store what they receive in `heard`."""
    with contextlib.ExitStack() as stack:
        for name, kind, address in (
            ("TCP", (socket.AF_INET, socket.SOCK_STREAM), ("127.0.0.1", 0)),
            ("TCP over IPv6", (socket.AF_INET6, socket.SOCK_STREAM), ("::1", 0)),
            ("UDP", (socket.AF_INET, socket.SOCK_DGRAM), ("127.0.0.1", 0)),
            ("a unix socket", (socket.AF_UNIX, socket.SOCK_STREAM), str(arena.socket)),
            ("an abstract socket", (socket.AF_UNIX, socket.SOCK_STREAM), arena.abstract),
        ):
            try:
                server = stack.enter_context(socket.socket(*kind))
                server.bind(address)
            except OSError:  # a machine without IPv6
                continue
            if kind[0] != socket.AF_UNIX:
                arena.ports[name] = server.getsockname()[1]
            if kind[1] == socket.SOCK_STREAM:
                server.listen()
            threading.Thread(target=_listen, args=(server, name, arena.heard), daemon=True).start()
        log = arena.home.parent / "signals.txt"
        victim = subprocess.Popen(
            [sys.executable, "-c", _VICTIM, str(log)], stdout=subprocess.PIPE, text=True
        )
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        assert victim.stdout is not None
        assert victim.stdout.readline() == "ready\n"
        arena.victim = victim.pid
        yield
        if victim.poll() is not None:
            arena.heard.append("the waiting process was killed")
        if log.exists():
            arena.heard += [f"the waiting process received {line}" for line in log.read_text().split()]


def _listen(server: socket.socket, name: str, heard: list[str]) -> None:
    with contextlib.suppress(OSError):  # the socket is closed at the end
        while True:
            if server.type == socket.SOCK_DGRAM:
                message = server.recv(100)
            else:
                connection = server.accept()[0]
                with connection:
                    connection.settimeout(1.0)
                    message = connection.recv(100)
            heard.append(f"{name} was reached, with {message!r}")


def fingerprints(folder: Path, *, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Map the path of each file in a folder to its mode, and to its hash or the target of a link."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if any(name == top or name.startswith(f"{top}/") for top in without):
            continue
        if path.is_symlink():
            content = f"-> {os.readlink(path)}"
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            content = ""
        found[name] = f"{path.lstat().st_mode:o} {content}"
    return found


def processes(*names: str) -> list[str]:
    """Return this machine's processes with one of these texts in their name, command line or environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            told = (folder / "comm").read_text()
            for file in ("cmdline", "environ"):
                told += (folder / file).read_bytes().decode(errors="replace")
            if int(folder.name) != os.getpid() and any(name in told for name in names):
                found.append(f"{folder.name} {told[:100]!r}")
    return found


def end(process: str) -> None:
    """Kill a leftover process, given as an entry in the result of `processes`."""
    with contextlib.suppress(OSError):
        os.kill(int(process.partition(" ")[0]), 9)
