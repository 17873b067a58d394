"""A class of attackers is graded in one run: each earns what its answers are worth, and nobody is harmed."""

import json
import re
from html.parser import HTMLParser

import pytest
from nbgrader.api import Gradebook

from autograder.sandbox.confinement import _probe
from tests.autograder.hostile.aftermath import HONEST, Aftermath, harm_by
from tests.autograder.hostile.conftest import Grade
from tests.autograder.hostile.threat import Threat
from tests.autograder.hostile.threats import THREATS
from tests.autograder.hostile.threats.submissions import SCRIPTS

pytestmark = pytest.mark.sandbox

#: Threats that resemble others, and take more than ten seconds each.
SLOW = {"judged-loop-that-catches", "patched-isinstance"}

#: The threats of each run. Judging is the same under both mechanisms, so the second run, at night,
#: contains only the slow threats and those that the weaker mechanism must confine.
RUNS = {
    "the strongest mechanism": tuple(threat for threat in THREATS if threat.name not in SLOW),
    "without bubblewrap": tuple(threat for threat in THREATS if threat.confined or threat.name in SLOW),
}
WITHOUT = {"the strongest mechanism": frozenset(), "without bubblewrap": frozenset({"bubblewrap"})}
MARKS = {"the strongest mechanism": (), "without bubblewrap": (pytest.mark.nightly,)}

each_run = pytest.mark.parametrize("run", [pytest.param(run, marks=MARKS[run]) for run in RUNS])
each_threat = pytest.mark.parametrize(
    ("run", "threat"),
    [
        pytest.param(run, threat, marks=MARKS[run], id=f"{threat.name}, {run}")
        for run, threats in RUNS.items()
        for threat in threats
    ],
)


def graded(grade_once: Grade, run: str) -> Aftermath:
    """Return the outcome of a run, which is graded only once."""
    without = WITHOUT[run]
    if not _probe(without).sufficient:
        pytest.skip(f"nothing confines code on this machine: {_probe(without).name}")
    return grade_once(
        run.replace(" ", "-"), RUNS[run], {"COURSE_SANDBOX_WITHOUT": ",".join(without)} if without else {}
    )


@each_threat
def test_a_threat_does_no_harm(grade_once: Grade, run: str, threat: Threat) -> None:
    found = graded(grade_once, run)
    assert harm_by(threat, found.student(threat.name), found) == []


@each_threat
def test_the_neighbours_of_a_threat_are_graded_rightly(grade_once: Grade, run: str, threat: Threat) -> None:
    found = graded(grade_once, run)
    neighbours = found.neighbours(found.student(threat.name))
    assert len(neighbours) == 2
    for neighbour in neighbours:
        assert harm_by(HONEST, neighbour, found) == []


@each_run
def test_nobody_else_is_harmed(grade_once: Grade, run: str) -> None:
    assert graded(grade_once, run).other_harm == []


@each_run
def test_honest_students_get_the_same_bytes(grade_once: Grade, run: str) -> None:
    found = graded(grade_once, run)
    honest = [name for name, tried in found.students.items() if tried == HONEST.name]
    notebooks = {name: json.dumps(found.notebook(name)) for name in honest}
    assert [name for name in honest if notebooks[name] != notebooks[honest[0]]] == []


@each_run
def test_the_gradebook_knows_nobody_else(grade_once: Grade, run: str) -> None:
    found = graded(grade_once, run)
    with Gradebook(f"sqlite:///{found.course}/autograder/gradebook.db") as gradebook:
        assert {student.id for student in gradebook.students} <= {*found.students, "zz-enrolled"}


@each_run
def test_the_log_is_plain(grade_once: Grade, run: str) -> None:
    said = graded(grade_once, run).said
    assert "Traceback (most recent call last)" not in said
    assert re.findall(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x9b]+[^\n]*", said) == []


@each_run
def test_the_report_says_what_confined(grade_once: Grade, run: str) -> None:
    found = graded(grade_once, run)
    [honest, *_] = [name for name, tried in found.students.items() if tried == HONEST.name]
    mechanism = found.notebook(honest).metadata["course_grading"]["mechanism"]
    assert mechanism == _probe(WITHOUT[run]).name
    assert ("bubblewrap" in mechanism) <= ("bubblewrap" not in WITHOUT[run])


class _Elements(HTMLParser):
    """A parser that collects the active elements of a page, and the text of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.active: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._in_script = tag == "script"
        if tag in ("iframe", "form", "object", "embed", "base"):
            self.active.append(tag)
        for name, value in attributes:
            goes_there = name in ("href", "action", "srcdoc") and "hostile" in (value or "")
            if name.startswith("on") or goes_there or "javascript:" in (value or ""):
                self.active.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script and "hostile" in data:
            self.active.append(f"script {data[:100]}")


def test_what_is_looked_for_in_feedback_can_be_found() -> None:
    elements = _Elements()
    elements.feed(SCRIPTS)
    assert len(elements.active) == 8


def test_scripts_do_not_reach_feedback(grade_once: Grade) -> None:
    found = graded(grade_once, "the strongest mechanism")
    student = found.student("scripts")
    [page] = (found.course / "autograder" / "feedback" / student).rglob("*.html")
    elements = _Elements()
    elements.feed(page.read_text(encoding="utf-8"))
    assert elements.active == []
