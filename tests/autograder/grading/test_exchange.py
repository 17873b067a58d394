"""A lesson in nbgrader's exchange, with the Unix accounts of an instructor and two students."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from classroom import Classroom, solved
from nbgrader.apps import (
    AutogradeApp,
    CollectApp,
    FetchAssignmentApp,
    FetchFeedbackApp,
    GenerateAssignmentApp,
    GenerateFeedbackApp,
    ListApp,
    ReleaseAssignmentApp,
    ReleaseFeedbackApp,
    SubmitApp,
)
from nbgrader.apps.baseapp import NbGrader
from small_course import LESSON, SmallCourse
from unix_accounts import Account, accounts, why_unavailable

from autograder.reports.safe_html import clean
from course_lib.student.configuration import COURSE_ID, write_configuration

pytestmark = [
    pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable())),
    pytest.mark.sandbox,
]


@dataclass
class Department:
    """A course with an exchange, an instructor and two students, who each have a Unix account and a home."""

    folder: Path
    instructor: Account
    students: list[Account]

    @property
    def classroom(self) -> Classroom:
        """The instructor's side."""
        return Classroom(self.folder / "course")

    def home(self, account: Account) -> Path:
        """Return an account's home folder."""
        return self.folder / account.name

    def run(self, account: Account, app: type[NbGrader], *arguments: str) -> str:
        """Run an nbgrader command that must succeed, and return its output."""
        teaches = account is self.instructor
        start = self.classroom.course / "autograder" if teaches else self.home(account)

        def command() -> None:
            os.environ.pop("COURSE_GRADEBOOK", None)
            os.environ["HOME"] = str(self.home(account))
            os.environ["JUPYTER_CONFIG_DIR"] = str(self.home(account) / ".jupyter")
            os.chdir(start)
            app.clear_instance()
            app.launch_instance(list(arguments))

        code, printed = account.call(command, umask=0o022)
        assert code == 0, printed
        return printed


@pytest.fixture
def department(made: SmallCourse) -> Iterator[Department]:
    """A course with a lesson released to the exchange, and students who are configured for it."""
    # Imports what the students' accounts may not be able to read from the interpreter's own files.
    clean("<b>warm</b>")
    with (
        tempfile.TemporaryDirectory(prefix="exchange-") as name,
        accounts("instructor", "ann", "ben") as (instructor, *students),
    ):
        folder = Path(name)
        folder.chmod(0o755)
        exchange = folder / "exchange"
        exchange.mkdir()
        exchange.chmod(0o777)
        shutil.copytree(made.root, folder / "course")
        config = folder / "course" / "autograder" / "nbgrader_config.py"
        config.write_text(f"{config.read_text()}\nc.Exchange.root = {str(exchange)!r}\n", encoding="utf-8")
        for path in ((folder / "course"), *(folder / "course").rglob("*")):
            os.chown(path, instructor.uid, instructor.group)
        made_department = Department(folder, instructor, students)
        for account in (instructor, *students):
            home = made_department.home(account)
            home.mkdir()
            if account is not instructor:
                write_configuration(home / ".jupyter", exchange)
            home.chmod(0o700)
            for path in (home, *home.rglob("*")):
                os.chown(path, account.uid, account.group)
        made_department.run(instructor, GenerateAssignmentApp, LESSON)
        made_department.run(instructor, ReleaseAssignmentApp, LESSON)
        yield made_department


def test_a_lesson_is_fetched_handed_in_graded_and_returned(department: Department) -> None:
    ann, ben = department.students
    assert LESSON in department.run(ann, ListApp)
    for student in (ann, ben):
        department.run(student, FetchAssignmentApp, LESSON)
    lesson = department.home(ann) / COURSE_ID / LESSON
    assert {path.name for path in lesson.iterdir()} >= {f"{LESSON}.ipynb", "AGENTS.md", "data"}

    notebook = lesson / f"{LESSON}.ipynb"
    nbformat.write(solved(nbformat.read(notebook, as_version=4)), notebook)
    os.chown(notebook, ann.uid, ann.group)
    for student in (ann, ben):
        department.run(student, SubmitApp, LESSON)
    department.run(department.instructor, CollectApp, LESSON)
    department.run(department.instructor, AutogradeApp, LESSON)
    right, unwritten = (department.classroom.scores(student.name) for student in (ann, ben))
    assert right is not None
    assert unwritten is not None
    assert right["check_attention_scores"] != unwritten["check_attention_scores"] == 0

    department.run(department.instructor, GenerateFeedbackApp, LESSON)
    department.run(department.instructor, ReleaseFeedbackApp, LESSON)
    for student, text in ((ann, "The variances add up."), (ben, "NotImplementedError")):
        department.run(student, FetchFeedbackApp, LESSON)
        [page] = (department.home(student) / COURSE_ID / LESSON / "feedback").rglob(f"{LESSON}.html")
        assert text in page.read_text(encoding="utf-8")


def test_one_student_cannot_read_what_another_hands_in(department: Department) -> None:
    ann, ben = department.students
    department.run(ann, FetchAssignmentApp, LESSON)
    department.run(ann, SubmitApp, LESSON)
    inbound = department.folder / "exchange" / COURSE_ID / "inbound"
    [handed_in] = inbound.iterdir()
    for look in (lambda: os.listdir(inbound), lambda: os.listdir(department.home(ann) / COURSE_ID)):
        code, printed = ben.call(look)
        assert "PermissionError" in printed
        assert code != 0
    assert ann.name in handed_in.name
