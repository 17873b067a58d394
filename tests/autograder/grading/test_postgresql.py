"""The gradebook in PostgreSQL, by one setting: a real server, nbgrader's real commands, SQLite's grades."""

import csv
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbgrader.api import Gradebook, get_alembic_version
from small_course import LESSON, SmallCourse, cell_of
from small_desk import Desk, solved
from sqlalchemy import text

from autograder.release.build import COURSE
from tests import nbgrader_command

pytestmark = [pytest.mark.postgres, pytest.mark.sandbox]

HERE = Path(__file__).parent


def programs() -> Path | None:
    """Find the newest server's programs, where Debian puts them or on the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server of our own, behind a socket in a temporary folder; the address of a database in it."""
    folder = programs()
    if folder is None:
        pytest.skip("there is no PostgreSQL server here; Debian's package `postgresql` brings one")
    # The server refuses to run as root. Debian's package made a user for it.
    who = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    # Not pytest's folder, which other users may not enter; and a socket's path must be short.
    data = tempfile.mkdtemp(prefix="gradebook-")
    if who:
        shutil.chown(data, "postgres", "postgres")

    def call(program: str, *arguments: str) -> None:
        command = [str(folder / program), *arguments]
        # A server that goes on would keep a pipe open.
        with open(f"{data}/said", "ab") as said:
            done = subprocess.run(command, cwd=data, check=False, stdout=said, stderr=said, **who)  # type: ignore[call-overload]
        assert done.returncode == 0, Path(data, "said").read_text()

    try:
        call("initdb", "-D", f"{data}/db", "-U", "grader", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        call("pg_ctl", "-D", f"{data}/db", "-w", "-o", f"-F -k {data} -c listen_addresses=", "start")
        try:
            yield f"postgresql+psycopg://grader@/postgres?host={data}"
        finally:
            call("pg_ctl", "-D", f"{data}/db", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(data)


def nbgrader(desk: Desk, gradebook: str, *command: str) -> str:
    paths = os.pathsep.join([str(COURSE), str(HERE)])
    done = nbgrader_command.nbgrader(
        desk.course / "autograder", *command, PYTHONPATH=paths, COURSE_GRADEBOOK=gradebook
    )
    return done.stdout + done.stderr


def grades(address: str) -> dict[str, list[tuple[str, float | None, float, bool]]]:
    """Read what each student has, by grade cell."""
    with Gradebook(address) as gradebook:
        return {
            submission.student.id: sorted(
                (grade.name, grade.auto_score, grade.score, grade.needs_manual_grade)
                for notebook in submission.notebooks
                for grade in notebook.grades
            )
            for submission in gradebook.assignment_submissions(LESSON)
        }


def test_postgresql_holds_the_same_grades_as_sqlite(made: SmallCourse, desk: Desk, server: str) -> None:
    right, spoilt = solved(desk.released), solved(desk.released)
    spoilt.cells.remove(cell_of(spoilt, "check_attention_scores"))
    cell_of(spoilt, "explain_root").source = "Größe, \N{GREEK SMALL LETTER SIGMA}, '; DROP TABLE grade; --"
    desk.hand_in("anna", right, at="2025-01-30 12:00:00 UTC")
    desk.hand_in("bela", spoilt)
    desk.hand_in("chloë o'neil", desk.released)
    for command in (("generate_assignment", LESSON), ("autograde", LESSON), ("generate_feedback", LESSON)):
        nbgrader(desk, server, *command)
    nbgrader(desk, server, "export", "--to", "grades.csv")
    in_postgresql = grades(server)
    assert set(in_postgresql) == {"anna", "bela", "chloë o'neil"}

    # The same class, graded once more with the default gradebook.
    pages = {path: path.read_bytes() for path in (desk.course / "autograder/autograded").rglob("*.ipynb")}
    shutil.rmtree(desk.course / "autograder/autograded")
    assert grades(f"sqlite:///{desk.course}/autograder/gradebook.db") == {}
    desk.autograde()
    assert grades(f"sqlite:///{desk.course}/autograder/gradebook.db") == in_postgresql
    assert {path: path.read_bytes() for path in pages} == pages

    with (desk.course / "autograder/grades.csv").open(newline="") as file:
        exported = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert exported == {
        student: pytest.approx(sum(score for _, _, score, _ in found))
        for student, found in in_postgresql.items()
    }
    assert len(list((desk.course / "autograder/feedback").rglob("*.html"))) == 3

    # nbgrader's own version table is there, so that a later nbgrader can bring the gradebook up to date.
    with Gradebook(server) as gradebook:
        [version] = gradebook.db.execute(text("SELECT version_num FROM alembic_version")).scalars()
    assert version == get_alembic_version()
    assert "Upgrading" in nbgrader(desk, server, "db", "upgrade")
    assert grades(server) == in_postgresql
