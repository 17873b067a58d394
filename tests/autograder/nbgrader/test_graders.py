"""Graders with different Unix accounts: if one of them lacks a permission, no grade is lost."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.apps import AutogradeApp, CollectApp, NbGrader

from tests.autograder.nbgrader.classroom import Classroom, solved
from tests.autograder.nbgrader.unix_accounts import Account, accounts, why_unavailable
from tests.autograder.small_course import LESSON, SmallCourse, cell_of

pytestmark = [
    pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable())),
    pytest.mark.sandbox,
]

NAME = f"{LESSON}.ipynb"
GROUP_SHARED = "c.CourseDirectory.groupshared = "


@dataclass
class Graders:
    """A course with an instructor, two assistants and two students, who each have a Unix account."""

    classroom: Classroom
    instructor: Account
    assistant: Account
    second_assistant: Account
    students: list[Account]

    @property
    def exchange(self) -> Path:
        """The folder through which students hand in."""
        return self.classroom.course.parent / "exchange"

    def autograde(self, account: Account, *options: str) -> tuple[int, str]:
        """Run `nbgrader autograde` as one of the graders, and return its exit code and its output."""
        return self.start(account, AutogradeApp, *options)()

    def start(self, account: Account, app: type[NbGrader], *options: str) -> Callable[[], tuple[int, str]]:
        """Start a command of nbgrader, and return a function that waits until it ends."""

        def command() -> None:
            os.environ.pop("COURSE_GRADEBOOK", None)
            os.environ["HOME"] = str(self.classroom.course.parent / "home")
            os.chdir(self.classroom.course / "autograder")
            app.clear_instance()
            app.launch_instance([LESSON, *options])

        return account.start(command, umask=0o022 if account is self.instructor else 0o002)

    def share(self) -> None:
        """Set groupshared and the file modes, as an instructor does to allow assistants to grade."""
        config = self.classroom.course / "autograder/nbgrader_config.py"
        text = config.read_text(encoding="utf-8")
        assert f"{GROUP_SHARED}False\n" in text
        config.write_text(text.replace(f"{GROUP_SHARED}False", f"{GROUP_SHARED}True"), encoding="utf-8")
        subprocess.run(["chmod", "-R", "g+rwX", self.classroom.course], check=True)

    def submit(self, student: Account, content: NotebookNode, at: str) -> None:
        """Write a submission to the exchange as a student, as `nbgrader submit` does."""
        folder = self.exchange / "build-the-transformer/inbound" / f"{student.name}+{LESSON}+{at}+0"

        def copy() -> None:
            folder.mkdir(mode=0o755)
            nbformat.write(content, folder / NAME)
            (folder / "timestamp.txt").write_text(at)

        code, printed = student.call(copy, umask=0o022)
        assert code == 0, printed

    def hand_in(self, student: str, content: Any, at: str) -> Path:
        """Write a submission as `nbgrader collect` does: owned by the instructor, readable by the group."""
        folder = self.classroom.hand_in(student, content, at=at)
        for path in (folder.parent, folder, *folder.iterdir()):
            os.chown(path, self.instructor.uid, self.instructor.group)
        return folder


@pytest.fixture
def graders(made: SmallCourse) -> Iterator[Graders]:
    """A class of two, graded by the instructor alone, with nbgrader's default file modes."""
    with (
        tempfile.TemporaryDirectory(prefix="two-graders-") as name,
        accounts("instructor", "assistant", "second") as (instructor, *assistants),
        accounts("ann", "ben", group="students") as students,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "home").mkdir()
        (folder / "home").chmod(0o777)
        shutil.copytree(made.root, folder / "warm")
        Classroom(folder / "warm").hand_in("anna", solved(Classroom(folder / "warm").released))
        Classroom(folder / "warm").autograde()  # imports everything that the commands below need
        shutil.copytree(made.root, folder / "course")
        classroom = Classroom(folder / "course")
        for path in (classroom.course, *classroom.course.rglob("*")):
            os.chown(path, instructor.uid, instructor.group)
        graders = Graders(classroom, instructor, *assistants, students)
        inbound = graders.exchange / "build-the-transformer/inbound"
        inbound.mkdir(parents=True)
        inbound.chmod(0o733)
        os.chown(inbound, instructor.uid, instructor.group)
        with (classroom.course / "autograder/nbgrader_config.py").open("a") as config:
            config.write(f"\nc.Exchange.root = {str(graders.exchange)!r}\n")
        (classroom.course / "autograder/submitted").mkdir()
        os.chown(classroom.course / "autograder/submitted", instructor.uid, instructor.group)
        for student in ("anna", "bela"):
            graders.hand_in(student, solved(classroom.released), at="2025-01-30 12:00:00 UTC")
        code, printed = graders.autograde(instructor)
        assert code == 0, printed
        scores = classroom.scores("anna")
        assert scores is not None
        assert scores["check_attention_scores"] is not None
        yield graders


def test_two_assistants_with_nothing_to_grade_change_nothing(graders: Graders) -> None:
    graders.share()
    before = graders.classroom.state()
    assistants = (graders.assistant, graders.second_assistant)
    for assistant in assistants:
        code, printed = graders.autograde(assistant)
        assert code == 0, printed
        assert graders.classroom.state() == before
    for ended in [graders.start(assistant, AutogradeApp) for assistant in assistants]:
        code, printed = ended()
        assert code == 0 or "another nbgrader command is working in" in printed
    assert graders.classroom.state() == before


def test_an_assistant_collects_while_another_grades(graders: Graders) -> None:
    graders.share()
    graders.exchange.joinpath("build-the-transformer/inbound").chmod(0o773)
    before = graders.classroom.state()["gradings"]
    for student in graders.students:
        graders.submit(student, solved(graders.classroom.released), at="2025-01-30 12:00:00 UTC")
    running = [
        graders.start(graders.assistant, CollectApp),
        graders.start(graders.second_assistant, AutogradeApp, "--force"),
    ]
    (collected, printed), (code, said) = [ended() for ended in running]
    assert collected == 0, printed
    assert code == 0 or "not graded: " in said  # a submission that is still being copied is reported
    for account in (graders.second_assistant, graders.instructor, graders.assistant):
        code, said = graders.autograde(account)
        assert code == 0, said
    after = graders.classroom.state()
    assert {name: after["gradings"][name] for name in before} == before
    assert graders.classroom.not_graded == {}
    names = [student.name for student in graders.students]
    assert len({str(after["gradings"][name]["grades"]) for name in names}) == 1
    assert_usable_by_all(graders)


def assert_usable_by_all(graders: Graders) -> None:
    """Check that all three graders can read and replace every file."""

    def look() -> None:
        root = graders.classroom.course / "autograder"
        for folder in ("submitted", "autograded"):
            for path in (root / folder, *(root / folder).rglob("*")):
                assert os.access(path, os.R_OK | (os.W_OK | os.X_OK if path.is_dir() else 0)), path
        assert os.access(root / "gradebook.db", os.R_OK | os.W_OK)

    for account in (graders.instructor, graders.assistant, graders.second_assistant):
        code, printed = account.call(look)
        assert code == 0, printed


def test_a_second_grader_can_grade_what_is_handed_in_again(graders: Graders) -> None:
    graders.share()
    graders.hand_in("anna", other(graders.classroom), at="2025-02-01 12:00:00 UTC")
    before = graders.classroom.scores("anna")
    code, printed = graders.autograde(graders.assistant)
    assert code == 0, printed
    assert graders.classroom.scores("anna") != before
    assert graders.classroom.not_graded == {}


@pytest.mark.parametrize("option", [(), ("--force",)])
def test_what_a_second_grader_may_not_replace_stays_and_is_reported(
    graders: Graders, option: tuple[str, ...]
) -> None:
    graders.share()
    for folder in ("autograded/anna", f"autograded/anna/{LESSON}"):
        (graders.classroom.course / "autograder" / folder).chmod(0o755)
    graders.hand_in("anna", other(graders.classroom), at="2025-02-01 12:00:00 UTC")
    before = graders.classroom.state()
    code, printed = graders.autograde(graders.assistant, *option)
    after = graders.classroom.state()
    assert after["gradings"]["anna"] == before["gradings"]["anna"]
    assert graded_files(after, "anna") == graded_files(before, "anna")
    assert code == 1
    assert f"anna, {LESSON}: not graded: " in printed
    assert "bela" not in graders.classroom.not_graded


def test_what_a_second_grader_may_not_read_stays_and_is_reported(graders: Graders) -> None:
    graders.share()
    folder = graders.hand_in("anna", other(graders.classroom), at="2025-02-01 12:00:00 UTC")
    (folder / NAME).chmod(0o600)
    before = graders.classroom.state()
    code, printed = graders.autograde(graders.assistant)
    assert code == 1
    assert f"anna, {LESSON}: not graded: {NAME} cannot be read" in printed
    assert graders.classroom.state()["gradings"] == before["gradings"]
    assert graders.classroom.state()["files"] == before["files"]


@pytest.mark.parametrize(
    ("locked", "failing"),
    [
        ("autograder/gradebook.db", ["anna", "carl"]),
        ("autograder", ["anna", "carl"]),
        ("autograder/autograded", ["carl"]),
    ],
)
def test_a_course_that_a_second_grader_may_not_write_keeps_its_grades(
    graders: Graders, locked: str, failing: list[str]
) -> None:
    graders.share()
    path = graders.classroom.course / locked
    path.chmod(0o755 if path.is_dir() else 0o644)
    for student in ("anna", "carl"):
        graders.hand_in(student, other(graders.classroom), at="2025-02-01 12:00:00 UTC")
    before = graders.classroom.state()
    code, printed = graders.autograde(graders.assistant)
    after = graders.classroom.state()
    assert code == 1
    assert after["gradings"]["bela"] == before["gradings"]["bela"]
    for student in failing:
        assert f"{student}, {LESSON}: not graded: " in printed
        assert after["gradings"].get(student) == before["gradings"].get(student)
        assert graded_files(after, student) == graded_files(before, student)


def graded_files(state: dict[str, Any], student: str) -> dict[str, Any]:
    return {name: file for name, file in state["files"].items() if name.startswith(f"{student}/")}


def other(classroom: Classroom) -> Any:
    """Return a solved lesson that earns different points."""
    notebook = solved(classroom.released)
    cell_of(notebook, "attention_scores").source += "  # once more"
    return notebook
