"""The submission of a hostile student, and its expected outcome."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from nbformat import NotebookNode

from tests.autograder.hostile.arena import Arena
from tests.autograder.small_course import cell_of

#: The attack's cell: the first one that a student writes. It is graded, and other cells follow it.
FIRST = "predict_spread"

#: Correct answers, by solution cell.
RIGHT = {
    FIRST: "predict_spread = 32",
    "attention_scores": """\
def attention_scores(query, key):
    products = query @ key.transpose(-2, -1)
    return products / math.sqrt(query.shape[-1])
""",
    "attention_weights": """\
def attention_weights(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)
""",
}

#: The points for each answer.
POINTS = {FIRST: 1.0, "attention_scores": 4.0, "attention_weights": 5.0}

#: The text that an attack's cell prints at its end.
RAN = "the attack ran to its end"

_PRELUDE = '''\
import atexit, ctypes, gc, glob, io, json, os, re, shutil, signal, socket, sqlite3, struct, subprocess, sys
import threading, time
from pathlib import Path
%s

def attempt(what, action):
    """Try an action that must fail, and print whether it succeeded."""
    try:
        found = action()
    except Exception as error:
        print(f"refused {what}: {type(error).__name__}: {error}"[:300])
    else:
        print(f"DONE {what}: {found!r}"[:3000])

def look(what, action):
    """Try an action that may succeed if it reveals no secret, and print its result."""
    try:
        found = action()
    except Exception as error:
        print(f"refused {what}: {type(error).__name__}: {error}"[:300])
    else:
        print(f"seen {what}: {found!r}"[:100_000])

libc = ctypes.CDLL(None, use_errno=True)

def system_call(*arguments):
    """Make a system call directly. Raises OSError if it fails."""
    result = libc.syscall(*(ctypes.c_long(item) if isinstance(item, int) else item for item in arguments))
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def named_process():
    """Rename this process so that the test can find it if it is left behind."""
    libc.prctl(15, MARK.encode())

'''


@dataclass(frozen=True)
class Threat:
    """One attack, in a submission with correct answers or with none."""

    name: str
    does: str
    """A short description of the attack."""
    attack: str = ""
    """Code at the beginning of the first solution cell. It can use the names that `_PRELUDE` defines."""
    answers: Literal["right", "blank"] = "right"
    cells: Mapping[str, str] = field(default_factory=dict)
    """Replacement contents for some solution cells, by name."""
    lost: tuple[str, ...] = ()
    """The answers that earn nothing although the others are correct."""
    earned: tuple[str, ...] = ()
    """The answers that earn their points although the others are blank."""
    graded: bool = True
    """Whether the submission can be graded at all. If not, the log must name it."""
    edit: Callable[[NotebookNode], None] | None = None
    """A function that changes the notebook."""
    hand_in: Callable[[Path, Arena], None] | None = None
    """A function that adds or replaces files in the submission folder."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """Expected verdicts, by exercise. By default, "right" for full points, and otherwise another verdict."""
    noted: str = ""
    """A regular expression for a note that the report must contain: a repair, violation or tampering."""
    hidden: str = ""
    """A regular expression for the note that the report must contain if the attack evades detection, in which
    case full points are accepted. Empty if the attack must be detected."""
    feedback: bool = False
    """Whether the submission's feedback page is generated and inspected."""
    garbled: bool = False
    """Whether the attack makes its kernel's messages, including outputs, unreadable."""
    confined: bool = False
    """Whether confinement must stop the attack. If so, the attack is also run under the weaker mechanism."""

    @property
    def scores(self) -> dict[str, float]:
        """The expected contents of the gradebook, by grade cell, before a person has read the explanation."""
        earned = self.earned if self.answers == "blank" else set(POINTS) - set(self.lost)
        given = {f"check_{name}": points if name in earned else 0.0 for name, points in POINTS.items()}
        return given | {"explain_root": 0.0}

    @property
    def ran(self) -> bool:
        """Whether the cell must report that the attack ran to its end.

        Threats with correct answers need not, because their points show it.
        """
        return bool(self.attack) and self.graded and self.answers == "blank" and not self.garbled

    @property
    def unseen(self) -> "Threat":
        """This threat with the outcome that is accepted if the attack evades detection: points and a note."""
        return replace(self, lost=(), verdicts={}, noted=self.hidden, hidden="")

    def notebook(self, released: NotebookNode, arena: Arena) -> NotebookNode:
        """Return a copy of the released notebook with the threat's changes."""
        notebook = copy.deepcopy(released)
        if self.answers == "right":
            for name, code in RIGHT.items():
                cell_of(notebook, name).source = code
        for name, code in self.cells.items():
            cell_of(notebook, name).source = code
        if self.attack:
            first = cell_of(notebook, FIRST)
            prelude = _PRELUDE % "\n".join(f"{name} = {value!r}" for name, value in arena.facts.items())
            first.source = f"{prelude}\n{self.attack}\nprint({RAN!r})\n{first.source}"
        if self.edit:
            self.edit(notebook)
        return notebook
