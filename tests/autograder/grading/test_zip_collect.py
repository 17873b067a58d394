"""Downloads from Canvas and Moodle, collected with nbgrader's own command."""

import unicodedata
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import ZipCollectApp
from small_course import LESSON
from small_desk import Desk

from autograder.submissions.downloads import parse
from tests.nbgrader_command import nbgrader

LONG = "Wolfeschlegelsteinhausenbergerdorff" * 5 + "Adolph Blaine Charles Sen"  # 200 characters
STUDENTS = {
    "jdoe": ("Jane", "Doe", "101"),
    "jmueller": ("Jürgen", "Müller-Lüdenscheidt", ""),
    "long": ("", LONG, ""),
    "sobrien": ("Siobhán", "O'Brien", ""),
    "alex1": ("Alex", "Kim", ""),
    "alex2": ("Alex", "Kim", ""),
    "zoe": ("Zoë", "de la Cruz", ""),
}
CANVAS = {
    # Canvas's number decides, whatever the name in Canvas is. The later upload counts.
    f"janedoesmith_LATE_101_9001_{LESSON}.ipynb": "jane, first",
    f"janedoesmith_LATE_101_10002_{LESSON}-1.ipynb": "jane, last",
    "janedoesmith_LATE_101_10003_config.yaml": "jane's configuration",
    "janedoesmith_LATE_101_10004_notes.pdf": "not for grading",
    f"{unicodedata.normalize('NFD', 'müllerlüdenscheidtjürgen')}_102_9003_my solution.ipynb": "jürgen",
    f"{LONG.replace(' ', '').lower()}_103_9004_{LESSON} (2).ipynb": "long",
    f"guest_999_9005_{LESSON}.ipynb": "a stranger",
    f"kimalex_104_9006_{LESSON}.ipynb": "one of two Alexes",
    f"guest_998_9007_101_9999_{LESSON}.ipynb": "poses as jane",
}
MOODLE = {
    f"Siobhán OBrien_55_assignsubmission_file/week 1/{LESSON}.ipynb": "siobhán",
    f"Siobhán OBrien_55_assignsubmission_file/week 1/.ipynb_checkpoints/{LESSON}.ipynb": "a checkpoint",
    f"Zoë de la Cruz_56_assignsubmission_file_{LESSON}.ipynb": "zoë",
    "Zoë de la Cruz_56_assignsubmission_onlinetext/onlinetext.html": "a note",
    f"Alex Kim_57_assignsubmission_file_/{LESSON}.ipynb": "alex",
    f"Alex Kim_58_assignsubmission_file_/{LESSON}.ipynb": "the other alex",
}


@pytest.fixture
def downloads(desk: Desk) -> Desk:
    """A course with a class, and the two archives where the command expects them."""
    with Gradebook(f"sqlite:///{desk.course}/autograder/gradebook.db") as gradebook:
        for student, (first, last, number) in STUDENTS.items():
            gradebook.add_student(
                student,
                first_name=first,
                last_name=last,
                lms_user_id=number or None,
                email=f"{student}@x.org",
            )
    archive = desk.course / "autograder/downloaded" / LESSON / "archive"
    archive.mkdir(parents=True)
    write(archive / "ml_2026_101_scores submissions.zip", CANVAS)
    write(archive / "ML-Scores-771.zip", MOODLE)
    return desk


def write(path: Path, files: Mapping[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def collected(desk: Desk) -> dict[str, str]:
    """Return the contents of what was collected, by student and file."""
    folder = desk.course / "autograder/submitted"
    return {
        f"{path.relative_to(folder).parts[0]}/{path.name}": path.read_text(encoding="utf-8")
        for path in folder.glob(f"*/{LESSON}/*")
    }


def test_each_notebook_gets_the_lessons_name_in_its_students_folder(downloads: Desk) -> None:
    done = nbgrader(downloads.course / "autograder", "zip_collect", LESSON)
    assert collected(downloads) == {
        f"jdoe/{LESSON}.ipynb": "jane, last",
        "jdoe/config.yaml": "jane's configuration",
        f"jmueller/{LESSON}.ipynb": "jürgen",
        f"long/{LESSON}.ipynb": "long",
        f"sobrien/{LESSON}.ipynb": "siobhán",
        f"zoe/{LESSON}.ipynb": "zoë",
    }
    refused = [line for line in done.stderr.splitlines() if "was not collected" in line]
    named = ("guest_999_", "kimalex_104_", "guest_998_", "Alex Kim_57_", "Alex Kim_58_")
    assert len(refused) == len(named)
    assert all(any(name in line for line in refused) for name in named)
    assert "late, but its file names don't say by how much: jdoe." in done.stderr


@pytest.mark.parametrize(
    ("roster", "expected"),
    [
        (
            "Identifier,Full name,Email address,Status,Grade\n"
            "Participant 58,Alex Kim,alex1@x.org,Submitted,-\n"
            "Participant 57,Alex Kim,alex2@x.org,Submitted,-\n",
            {"alex1": "the other alex", "alex2": "alex"},
        ),
        (
            "Student,ID,SIS User ID,SIS Login ID,Section\nPoints Possible,,,,\n"
            '"Kim, Alex",104,,alex2,A\n"Guest",999,,alex1@x.org,A\n',
            {"alex1": "a stranger", "alex2": "one of two Alexes"},
        ),
    ],
    ids=["moodle", "canvas"],
)
def test_a_roster_tells_students_of_one_name_apart(
    downloads: Desk, roster: str, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(downloads.course / "autograder")
    monkeypatch.delenv("COURSE_GRADEBOOK", raising=False)
    Path("roster.csv").write_text(roster, encoding="utf-8-sig")
    ZipCollectApp.clear_instance()
    ZipCollectApp.launch_instance(["--DownloadCollector.roster=roster.csv", LESSON])
    ZipCollectApp.clear_instance()
    found = collected(downloads)
    assert {student: found.get(f"{student}/{LESSON}.ipynb") for student in expected} == expected


@pytest.mark.parametrize(
    "path",
    [
        "anon_x7f3q_900_a.ipynb",  # Canvas, anonymous grading
        "guest_998_9007_101_9999_a.ipynb",
        "x_101_998_9007_a.ipynb",
        "a/b/jane_101_900_a.ipynb",  # too deep: a student's own archive
        "a.ipynb",
    ],
)
def test_a_path_that_could_be_forged_names_nobody(path: str, tmp_path: Path) -> None:
    assert list(parse(tmp_path, tmp_path / path)) == []
