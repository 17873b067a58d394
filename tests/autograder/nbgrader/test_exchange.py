"""A lesson in nbgrader's exchange, with the Unix accounts of two graders and two students."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbgrader.apps import (
    AutogradeApp,
    CollectApp,
    ExportApp,
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

from autograder.graded_notebooks.safe_html import clean
from course_lib.student.configuration import COURSE_ID, write_configuration
from tests.autograder.nbgrader.classroom import Classroom, solved
from tests.autograder.nbgrader.unix_accounts import Account, accounts, why_unavailable
from tests.autograder.small_course import LESSON, SmallCourse

pytestmark = [
    pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable())),
    pytest.mark.sandbox,
]


@dataclass
class Department:
    """A course with an exchange, two graders and two students, who each have a Unix account and a home."""

    folder: Path
    instructor: Account
    assistant: Account
    students: list[Account]

    @property
    def classroom(self) -> Classroom:
        """The course as its instructor uses it."""
        return Classroom(self.folder / "course")

    @property
    def exchange(self) -> Path:
        """The course's folder in the exchange."""
        return self.folder / "exchange" / COURSE_ID

    def share(self) -> None:
        """Share the course with all graders, as the instructor guide describes."""
        course = self.classroom.course
        config = course / "autograder/nbgrader_config.py"
        text = config.read_text(encoding="utf-8").replace("groupshared = False", "groupshared = True")
        config.write_text(text, encoding="utf-8")
        subprocess.run(["chmod", "-R", "g+rwX", course], check=True)
        subprocess.run(["find", course, "-type", "d", "-exec", "chmod", "g+s", "{}", "+"], check=True)

    def home(self, account: Account) -> Path:
        """Return an account's home folder."""
        return self.folder / account.name

    def run(self, account: Account, app: type[NbGrader], *arguments: str) -> str:
        """Run an nbgrader command that must succeed, and return its output."""
        code, printed = self.attempt(account, app, *arguments)
        assert code == 0, printed
        return printed

    def attempt(self, account: Account, app: type[NbGrader], *arguments: str) -> tuple[int, str]:
        """Run an nbgrader command, and return its exit code and its output. The instructor's umask is 077."""
        teaches = account not in self.students
        start = self.classroom.course / "autograder" if teaches else self.home(account)

        def command() -> None:
            os.environ.pop("COURSE_GRADEBOOK", None)
            os.environ["HOME"] = str(self.home(account))
            os.environ["JUPYTER_CONFIG_DIR"] = str(self.home(account) / ".jupyter")
            os.chdir(start)
            app.clear_instance()
            app.launch_instance(list(arguments))

        return account.call(command, umask=0o077 if account is self.instructor else 0o022)


@pytest.fixture
def department(made: SmallCourse) -> Iterator[Department]:
    """A course with a lesson released to the exchange, and students whose nbgrader is configured for it."""
    # Make `clean` import its modules now, because students' accounts may be unable to read Python's files.
    clean("<b>warm</b>")
    with (
        tempfile.TemporaryDirectory(prefix="exchange-") as name,
        accounts("instructor", "assistant") as (instructor, assistant),
        accounts("ann", "ben", group="students") as students,
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
        made_department = Department(folder, instructor, assistant, students)
        for account in (instructor, assistant, *students):
            home = made_department.home(account)
            home.mkdir()
            if account in students:
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


def test_a_second_grader_continues_what_the_first_began(department: Department) -> None:
    ann, _ = department.students
    first, second = department.instructor, department.assistant
    department.share()
    department.run(ann, FetchAssignmentApp, LESSON)
    for grader in (first, second):
        department.run(ann, SubmitApp, LESSON)
        department.run(grader, ReleaseAssignmentApp, LESSON, "--force")
        department.run(grader, CollectApp, LESSON, "--update")
        for app in (AutogradeApp, GenerateFeedbackApp, ReleaseFeedbackApp):
            department.run(grader, app, LESSON)
        department.run(grader, ExportApp)
        department.run(ann, FetchFeedbackApp, LESSON)
    department.run(second, ReleaseFeedbackApp, LESSON)  # overwrites the first grader's pages
    pages = (department.home(ann) / COURSE_ID / LESSON / "feedback").rglob(f"{LESSON}.html")
    assert len(list(pages)) == 2


def test_what_a_second_grader_may_not_replace_in_the_exchange_is_kept(department: Department) -> None:
    ann, ben = department.students
    for student in (ann, ben):
        department.run(student, FetchAssignmentApp, LESSON)
        department.run(student, SubmitApp, LESSON)
    department.run(department.instructor, CollectApp, LESSON)
    department.run(ann, SubmitApp, LESSON)
    department.share()
    submitted = department.classroom.folder(ann.name).parent
    submitted.chmod(0o755)
    department.exchange.chmod(0o2775)
    for name in ("inbound", "outbound"):
        (department.exchange / name).chmod(0o2773)
    (department.exchange / "feedback").mkdir(mode=0o711)
    os.chown(department.exchange / "feedback", department.instructor.uid, department.instructor.group)
    damaged = department.classroom.folder(ben.name) / "timestamp.txt"
    damaged.write_text("yesterday")
    misnamed = department.exchange / "inbound" / f"{ben.name}+{LESSON}+tomorrow"
    misnamed.mkdir()
    before = {
        path: path.read_bytes()
        for folder in (submitted, department.exchange / "outbound")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    for app, options, expected in (
        (CollectApp, ["--update"], f"{ann.name}: not collected: {submitted / LESSON} cannot be replaced"),
        (CollectApp, [], f"{misnamed}: expected STUDENT+LESSON+TIME"),
        (ReleaseAssignmentApp, ["--force"], f"{LESSON} was not released: "),
        (ReleaseFeedbackApp, [], f"feedback belongs to {department.instructor.name}, and you cannot both"),
    ):
        code, printed = department.attempt(department.assistant, app, LESSON, *options)
        assert code == 1, printed
        assert expected in printed
        assert "Traceback" not in printed
        assert all(path.read_bytes() == content for path, content in before.items())
    assert damaged.read_text() != "yesterday"  # collected again


def test_nobody_hands_in_for_another_student(department: Department) -> None:
    ann, ben = department.students
    for student in (ann, ben):
        department.run(student, FetchAssignmentApp, LESSON)
        department.run(student, SubmitApp, LESSON)
    inbound = department.folder / "exchange" / COURSE_ID / "inbound"
    own = next(path for path in inbound.iterdir() if path.name.startswith(f"{ben.name}+"))
    forged = inbound / f"{ann.name}+{LESSON}+2999-01-01 00:00:00.000000 UTC"
    shutil.copytree(own, forged)
    (forged / "timestamp.txt").write_text("2999-01-01 00:00:00.000000 UTC")
    (forged / f"{LESSON}.ipynb").write_text("forged")
    for path in (forged, *forged.rglob("*")):
        os.chown(path, ben.uid, ben.group)
    code, printed = department.attempt(department.instructor, CollectApp, LESSON)
    assert code == 1
    assert f"it was handed in by {ben.name}, in the name of {ann.name}" in printed
    for student in (ann, ben):
        assert (department.classroom.folder(student.name) / f"{LESSON}.ipynb").read_text() != "forged"


def test_no_submission_of_a_student_misleads_or_stops_the_graders(department: Department) -> None:
    """Ben writes to the submissions folder by hand. The gradebook has no students yet."""
    ann, ben = department.students
    department.run(ann, FetchAssignmentApp, LESSON)
    department.run(ann, SubmitApp, LESSON)
    department.run(department.instructor, CollectApp, LESSON)
    inbound = department.exchange / "inbound"
    [handed_in] = inbound.iterdir()
    notebook = department.classroom.folder(ann.name) / f"{LESSON}.ipynb"
    solution = department.classroom.course / "solutions" / LESSON / f"{LESSON}.ipynb"
    assert solution.exists()
    later = "2999-01-01 00:00:00.000000 UTC"

    def by_ben() -> None:
        # A grader's copy must not show Ben anything that he can't read himself.
        with_links = inbound / f"{ben.name}+{LESSON}+{later}"
        (with_links / "data").mkdir(parents=True)
        (with_links / f"{LESSON}.ipynb").symlink_to(notebook)
        (with_links / "data" / "notes.txt").symlink_to(solution)
        os.mkfifo(with_links / "pipe")
        # The link's target belongs to Ann, which doesn't prove that she handed it in.
        (inbound / f"{ann.name}+{LESSON}+{later}").symlink_to(department.home(ann))
        for name in (
            f"{ben.name}+{LESSON}+99999999999999999999",
            f"..+{LESSON}+{later}",
            f"+{LESSON}+{later}",
        ):
            (inbound / name).mkdir()

    assert ben.call(by_ben) == (0, "")
    code, printed = department.attempt(department.instructor, CollectApp, LESSON, "--update")
    assert code == 1
    assert "Traceback" not in printed
    assert f"it was handed in by {ben.name}, in the name of {ann.name}" in printed
    assert (
        f"{ben.name}: not collected: {LESSON}.ipynb is a symbolic link, and links are not followed" in printed
    )
    assert printed.count("expected STUDENT+LESSON+TIME as the name of a submission") == 2
    submitted = department.classroom.course / "autograder" / "submitted"
    assert list(submitted.glob(f"*/{LESSON}")) == [department.classroom.folder(ann.name)]
    assert (department.classroom.folder(ann.name) / "timestamp.txt").read_text() in handed_in.name

    # A grader may submit on behalf of a student.
    by_a_grader = inbound / f"{ann.name}+{LESSON}+{later.replace('2999', '2998')}"
    shutil.copytree(handed_in, by_a_grader)
    (by_a_grader / "timestamp.txt").write_text(later.replace("2999", "2998"))
    (by_a_grader / "submission_secret.txt").write_bytes(b"\xff")
    for path in (by_a_grader, *by_a_grader.rglob("*")):
        os.chown(path, department.instructor.uid, department.instructor.group)
    department.attempt(department.instructor, CollectApp, LESSON, "--update")
    assert "2998" in (department.classroom.folder(ann.name) / "timestamp.txt").read_text()

    # A submission secret that isn't text is reported by student, without a traceback.
    department.run(department.instructor, AutogradeApp, LESSON)
    department.run(department.instructor, GenerateFeedbackApp, LESSON)
    code, printed = department.attempt(department.instructor, ReleaseFeedbackApp, LESSON)
    assert code == 1
    assert "Traceback" not in printed
    assert f"{ann.name}: the feedback was not released" in printed


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
