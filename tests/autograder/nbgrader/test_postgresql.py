"""A gradebook in PostgreSQL, selected by one setting, contains the same grades as one in SQLite."""

import csv
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook, get_alembic_version
from nbgrader.apps import ExportApp, GenerateAssignmentApp, GenerateFeedbackApp, NbGrader
from nbgrader.apps.dbapp import DbUpgradeApp
from sqlalchemy import text

from autograder.nbgrader.autograde import CourseAutograde
from autograder.release.build import COURSE
from tests.autograder.nbgrader.classroom import Classroom, release, run_app, solved
from tests.autograder.small_course import LESSON, cell_of
from tests.nbgrader_command import nbgrader

pytestmark = [pytest.mark.postgres, pytest.mark.sandbox]


def programs() -> Path | None:
    """Return the folder of the newest server's programs, from Debian's folders or the PATH, if found."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@dataclass
class Server:
    """A PostgreSQL server for these tests, with a socket in a temporary folder."""

    address: str
    """The address of a database on the server."""
    control: Callable[..., None]
    """A function that runs `pg_ctl` for the server."""


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL isn't installed; Debian's package `postgresql` provides it")
    # The server refuses to run as root. Debian's package creates a user for it.
    who = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    # Don't use pytest's folder: other users may not enter it, and its path is too long for a socket.
    data = tempfile.mkdtemp(prefix="gradebook-")
    if who:
        shutil.chown(data, "postgres", "postgres")

    def call(program: str, *arguments: str) -> None:
        command = [str(folder / program), "-D", f"{data}/db", *arguments]
        # Write to a file, because a server that keeps running would keep a pipe open.
        with open(f"{data}/said", "ab") as said:
            done = subprocess.run(command, cwd=data, check=False, stdout=said, stderr=said, **who)  # type: ignore[call-overload]
        assert done.returncode == 0, Path(data, "said").read_text(encoding="utf-8")

    def control(*arguments: str) -> None:
        call("pg_ctl", "-w", "-o", f"-F -k {data} -c listen_addresses=", *arguments)

    try:
        call("initdb", "-U", "grader", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        control("start")
        try:
            yield Server(f"postgresql+psycopg://grader@/postgres?host={data}", control)
        finally:
            control("-m", "immediate", "stop")
    finally:
        shutil.rmtree(data)


@pytest.fixture
def server(running: Server) -> str:
    """The address of a database for a gradebook."""
    return running.address


def grades(address: str) -> dict[str, list[tuple[str, float | None, float, bool]]]:
    """Return each student's points by grade cell."""
    with Gradebook(address) as gradebook:
        return {
            submission.student.id: sorted(
                (grade.name, grade.auto_score, grade.score, grade.needs_manual_grade)
                for notebook in submission.notebooks
                for grade in notebook.grades
            )
            for submission in gradebook.assignment_submissions(LESSON)
        }


def test_postgresql_holds_the_same_grades_as_sqlite(
    classroom: Classroom, server: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(app: type[NbGrader], *arguments: str) -> None:
        folder = classroom.course / "autograder"
        with monkeypatch.context() as patch:
            assert run_app(patch, app, folder, *arguments, COURSE_GRADEBOOK=server) == 0

    right, spoilt = solved(classroom.released), solved(classroom.released)
    spoilt.cells.remove(cell_of(spoilt, "check_attention_scores"))
    cell_of(spoilt, "explain_root").source = "Größe, \N{GREEK SMALL LETTER SIGMA}, '; DROP TABLE grade; --"
    classroom.hand_in("anna", right, at="2025-01-30 12:00:00 UTC")
    classroom.hand_in("bela", spoilt)
    classroom.hand_in("chloë o'neil", classroom.released)
    run(GenerateAssignmentApp, LESSON)
    variables = {"PYTHONPATH": str(COURSE), "COURSE_GRADEBOOK": server}
    nbgrader(classroom.course / "autograder", "autograde", LESSON, **variables)
    run(GenerateFeedbackApp, LESSON)
    run(ExportApp, "--to", "grades.csv")
    in_postgresql = grades(server)
    assert set(in_postgresql) == {"anna", "bela", "chloë o'neil"}

    # Grade the same class again with the default gradebook.
    pages = {
        path: path.read_bytes() for path in (classroom.course / "autograder/autograded").rglob("*.ipynb")
    }
    shutil.rmtree(classroom.course / "autograder/autograded")
    assert grades(f"sqlite:///{classroom.course}/autograder/gradebook.db") == {}
    classroom.autograde()
    assert grades(f"sqlite:///{classroom.course}/autograder/gradebook.db") == in_postgresql
    assert {path: path.read_bytes() for path in pages} == pages

    with (classroom.course / "autograder/grades.csv").open(newline="") as file:
        exported = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert exported == {
        student: pytest.approx(sum(score for _, _, score, _ in found))
        for student, found in in_postgresql.items()
    }
    assert len(list((classroom.course / "autograder/feedback").rglob("*.html"))) == 3

    # nbgrader's own version table exists, so that a later nbgrader can upgrade the gradebook.
    with Gradebook(server) as gradebook:
        [version] = gradebook.db.execute(text("SELECT version_num FROM alembic_version")).scalars()
    assert version == get_alembic_version()
    run(DbUpgradeApp)
    assert "Upgrading" in capfd.readouterr().err
    assert grades(server) == in_postgresql


def test_a_server_that_stops_in_mid_run_loses_no_grade(
    classroom: Classroom, running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COURSE_GRADEBOOK", running.address)
    # Don't depend on what other tests have left in the database.
    shutil.copytree(classroom.course, classroom.course.with_name("second"))
    classroom = Classroom(classroom.course.with_name("second"))
    release(classroom.course)
    students = [f"student-{number}" for number in range(5)]
    for student in students:
        classroom.hand_in(student, solved(classroom.released))
    assert classroom.autograde() == []
    before = grades(running.address)
    for number, student in enumerate(students):
        again = solved(classroom.released)
        cell_of(again, "attention_scores").source += f"  # {number}"
        classroom.hand_in(student, again)
    grade = CourseAutograde.grade

    def stop_meanwhile(self: Any, prepared: Any, *arguments: Any) -> None:
        if prepared.submission.student == students[2]:
            running.control("-m", "immediate", "stop")
        grade(self, prepared, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(CourseAutograde, "grade", stop_meanwhile)
        said = classroom.autograde()
    assert said[-1].startswith("nbgrader ends with an error: 3 of 5 submissions could not be graded")
    assert set(classroom.not_graded) == set(students[2:])
    for student in students[2:]:
        [reason] = [line for line in said if line.startswith(f"{student}, {LESSON}: not graded: ")]
        assert "the gradebook cannot be used: " in reason
        assert "Check the database and its address, COURSE_GRADEBOOK" in reason
        assert "SELECT" not in reason
    graded = {
        student: "#" in cell_of(classroom.autograded(student), "attention_scores").source
        for student in students
    }
    assert graded == {student: student in students[:2] for student in students}
    # Without a server, the command fails immediately.
    said = classroom.autograde()
    assert "nbgrader ends with an error: the gradebook cannot be used: " in said[-1]

    running.control("start")
    stopped = grades(running.address)
    assert {student: stopped[student] for student in students[2:]} == {
        student: before[student] for student in students[2:]
    }
    said = classroom.autograde()
    assert said == [line for line in said if line.startswith("Undid the changes of an interrupted run")]
    assert classroom.not_graded == {}
    finished = grades(running.address)
    assert {student: finished[student] for student in students[:2]} == {
        student: stopped[student] for student in students[:2]
    }
    assert all(finished[student] != before[student] for student in students)
    assert classroom.autograde(force=True) == []
    assert grades(running.address) == finished
