"""Submit all threats, grade them, and describe the harm that was done."""

import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry

from autograder.graded_notebooks.record import GradingRecord
from autograder.graded_notebooks.verdicts import verdicts_in
from tests.autograder.hostile.arena import (
    LESSON,
    Arena,
    clear,
    end,
    fingerprints,
    inhabited,
    make_arena,
    processes,
)
from tests.autograder.hostile.threat import POINTS, RAN, Threat

#: The number of hostile students between two honest ones.
BETWEEN = 8

#: A graded notebook with more bytes than this counts as harm, because somebody has to open it.
MAX_BYTES = 4_000_000

HONEST = Threat("honest", "hands in correct answers")

#: The paths in the course that grading is supposed to write.
_OWN_IN_COURSE = (
    "autograder/autograded",
    "autograder/gradebook.db",
    "autograder/feedback",
    "autograder/not_graded.json",
    "autograder/releases",
    "autograder/reports",
    "autograder/result_store",
    "autograder/__pycache__",
)


@dataclass(frozen=True)
class Aftermath:
    """The state after grading, as plain data, so that pytest's workers can share it."""

    course: Path
    students: dict[str, str]
    """The name of each student's threat, or "honest", in the alphabetical order of the students."""
    secrets: dict[str, str]
    code: int
    said: str
    scores: dict[str, dict[str, float | None] | None]
    """Each student's scores in the gradebook, by grade cell, or None if it contains none."""
    other_harm: list[str]
    """Sentences that describe harm to anyone other than the attacker."""

    def student(self, threat: str) -> str:
        """Return the student who made this attack."""
        return next(student for student, tried in self.students.items() if tried == threat)

    def neighbours(self, student: str) -> list[str]:
        """Return the nearest honest students before and after this one, in alphabetical order."""
        names = list(self.students)
        honest = [name for name, tried in self.students.items() if tried == HONEST.name]
        place = names.index(student)
        before = [name for name in honest if names.index(name) < place][-1:]
        return before + [name for name in honest if names.index(name) > place][:1]

    def folder(self, student: str) -> Path:
        return self.course / "autograder" / "autograded" / student / LESSON

    def notebook(self, student: str) -> NotebookNode:
        """Read a graded notebook. Raises FileNotFoundError if there is none."""
        return nbformat.read(self.folder(student) / f"{LESSON}.ipynb", as_version=4)


def play(
    root: Path,
    threats: Sequence[Threat],
    *,
    config: str = "",
    variables: Mapping[str, str] | None = None,
    seconds: float = 1500,
) -> Aftermath:
    """Create a course, hand in threats among honest students, grade all in one run, and record the state."""
    arena = make_arena(root, config)
    try:
        return _play(arena, threats, variables or {}, seconds)
    finally:
        clear(arena)


def _play(arena: Arena, threats: Sequence[Threat], variables: Mapping[str, str], seconds: float) -> Aftermath:
    environment = arena.environment | variables
    code, said = _nbgrader(arena, environment, seconds, "generate_assignment", LESSON)
    assert code == 0, said
    with Gradebook(f"sqlite:///{arena.classroom}/gradebook.db") as gradebook:
        gradebook.add_student("zz-enrolled", last_name=arena.secrets["the gradebook"])
    students: dict[str, Threat] = {}
    for place, threat in enumerate(threats):
        if place % BETWEEN == 0:
            students[f"s{len(students):03}-honest"] = HONEST
        students[f"s{len(students):03}-{threat.name}"] = threat
    students[f"s{len(students):03}-honest"] = HONEST
    arena.neighbour = next(iter(students))
    with inhabited(arena):
        _hand_in(arena, students)
        before = _places(arena)
        told = _told(arena)
        code, said = _nbgrader(arena, environment, seconds, "autograde", LESSON)
        # The last of nbgrader's own processes may end a moment after the command.
        deadline = time.monotonic() + 10
        marks = (arena.mark, f"300.{int(arena.mark[2:], 16)}")
        while (left := processes(*marks)) and time.monotonic() < deadline:
            time.sleep(0.1)
        for process in left:
            end(process)
        after = _places(arena)
    harm = [f"{name} is left running" for name in left]
    harm += arena.heard
    harm += [f"{path} was left in {place}" for place, path in arena.strays().items() if path.exists()]
    for place, files in before.items():
        for name in sorted(files.keys() | after[place].keys()):
            if files.get(name) != after[place].get(name):
                harm.append(f"{name} in {place} was {files.get(name)}, and is {after[place].get(name)}")
    if told != _told(arena):
        harm.append("the gradebook's records of the lesson and the enrolled student have changed")
    for student, threat in students.items():
        if threat.feedback:
            _nbgrader(arena, environment, seconds, "generate_feedback", LESSON, f"--student={student}")
    return Aftermath(
        arena.course,
        {student: threat.name for student, threat in students.items()},
        arena.secrets,
        code,
        said,
        {student: _scores(arena, student) for student in students},
        harm,
    )


def _hand_in(arena: Arena, students: Mapping[str, Threat]) -> None:
    released = nbformat.read(arena.course / "lessons" / LESSON / f"{LESSON}.ipynb", as_version=4)
    for student, threat in students.items():
        folder = arena.classroom / "submitted" / student / LESSON
        folder.mkdir(parents=True)
        notebook = threat.notebook(released, arena)
        if threat is HONEST:
            secret = arena.secrets["another student's notebook"]
            notebook.cells[-1].source += f"\n<!-- {secret} -->"
        # Write the file without nbformat, which would reject some of these notebooks.
        (folder / f"{LESSON}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
        if threat.hand_in:
            threat.hand_in(folder, arena)


def _nbgrader(arena: Arena, environment: Mapping[str, str], seconds: float, *command: str) -> tuple[int, str]:
    """Run a command in its own session, so that attacks on its process group don't reach the tests."""
    log = arena.classroom.parent.parent / f"{command[0]}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [Path(sys.executable).with_name("nbgrader"), *command],
            cwd=arena.classroom,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = 124
        with contextlib.suppress(ProcessLookupError):
            if code == 124:
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return code, log.read_bytes()[-10_000_000:].decode(errors="replace")


def _places(arena: Arena) -> dict[str, dict[str, str]]:
    return {
        "the course": fingerprints(arena.course, without=_OWN_IN_COURSE),
        "the home folder": fingerprints(arena.home),
        "the folder outside": fingerprints(arena.outside),
        "the hidden folder": fingerprints(arena.hidden),
    }


def _told(arena: Arena) -> list[str]:
    """Return the contents of the gradebook apart from the submissions."""
    with Gradebook(f"sqlite:///{arena.classroom}/gradebook.db") as gradebook:
        [assignment] = gradebook.assignments
        [notebook] = assignment.notebooks
        cells = [
            (cell.name, cell.source, cell.checksum, cell.locked, cell.cell_type)
            for cell in notebook.source_cells
        ]
        worth = [(cell.name, cell.max_score) for cell in notebook.grade_cells]
        enrolled = gradebook.find_student("zz-enrolled")
        return [*map(str, cells), *map(str, worth), assignment.name, str(enrolled.last_name)]


def _scores(arena: Arena, student: str) -> dict[str, float | None] | None:
    with Gradebook(f"sqlite:///{arena.classroom}/gradebook.db") as gradebook:
        try:
            notebook = gradebook.find_submission_notebook(LESSON, LESSON, student)
        except MissingEntry:
            return None
        if all(grade.auto_score is None for grade in notebook.grades):
            return None
        return {grade.name: grade.score for grade in notebook.grades}


def shown(notebook: NotebookNode) -> str:
    """Return the text of all outputs of a notebook."""
    held: list[Any] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            held += [output.get("text"), output.get("data"), output.get("evalue"), output.get("traceback")]
            held.append(output.get("metadata"))
    return "\n".join(item if isinstance(item, str) else json.dumps(item) for item in held if item)


def harm_by(threat: Threat, student: str, found: Aftermath) -> list[str]:
    """Describe, in sentences, how the outcome of one submission differs from the expected one."""
    if threat.hidden and not harm_by(threat.unseen, student, found):
        return []
    scores = found.scores[student]
    if not threat.graded:
        harm = [] if scores is None else [f"it was given {scores}"]
        if not re.search(rf"{student}\b.*not graded|{student}.*{LESSON}.*: ", found.said):
            harm.append("the log does not say that it wasn't graded")
        return harm + _kept(student, found)
    harm = []
    if scores != threat.scores:
        harm.append(f"its scores should be {threat.scores} and are {scores}")
    try:
        notebook = found.notebook(student)
    except FileNotFoundError:
        return [*harm, "there is no graded notebook"]
    text = shown(notebook)
    harm += [line[:300] for line in text.split("\n") if line.startswith("DONE ")]
    if threat.ran and RAN not in text:
        harm.append("the attack did not run to its end, so it proves nothing")
    size = (found.folder(student) / f"{LESSON}.ipynb").stat().st_size
    if size > MAX_BYTES:
        harm.append(f"its graded notebook has {size / 1e6:.0f} MB")
    harm += [f"the secret in {place} leaked" for place, secret in found.secrets.items() if secret in text]
    harm += _reported(threat, notebook)
    return harm + _kept(student, found)


def _reported(threat: Threat, notebook: NotebookNode) -> list[str]:
    """Describe, in sentences, how the report differs from the expected one."""
    expected = {name: "right" for name in POINTS if threat.scores[f"check_{name}"] == POINTS[name]} | dict(
        threat.verdicts
    )
    said = {found.name: found.verdict for found in verdicts_in(notebook).values()}
    harm = [
        f"the report calls {name} {said.get(name)!r}, and not {verdict!r}"
        for name, verdict in expected.items()
        if said.get(name) != verdict
    ]
    harm += [
        f"the report calls {name} right"
        for name in POINTS
        if name not in expected and said.get(name) == "right"
    ]
    if said.keys() != POINTS.keys():
        harm.append(f"the report covers only {sorted(said)}")
    record = GradingRecord.of(notebook)
    notes = [*record.repairs, *record.violations, *record.tampering]
    if not record.complete:
        harm.append("the report is not complete")
    if threat.noted and not any(re.search(threat.noted, note) for note in notes):
        harm.append(f"no note matches {threat.noted!r}: {notes}")
    return harm


def _kept(student: str, found: Aftermath) -> list[str]:
    """Describe, in sentences, the submission files that should not have been kept."""
    harm = []
    for path in found.folder(student).rglob("*") if found.folder(student).exists() else ():
        if path.is_symlink():
            harm.append(f"a link was kept: {path.name!r}")
        elif not (path.is_dir() or path.is_file()):
            harm.append(
                f"something that is not a file was kept: {path.name!r}, {stat.S_IFMT(path.stat().st_mode):o}"
            )
        elif path.is_file() and path.suffix != ".ipynb":
            content = path.read_bytes()
            harm += [
                f"{path.name!r} was kept, with the secret in {place}"
                for place, secret in found.secrets.items()
                if secret.encode() in content
            ]
    return harm
