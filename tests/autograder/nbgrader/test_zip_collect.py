"""Downloads from Canvas and Moodle, collected with nbgrader's own command."""

import codecs
import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import unicodedata
import warnings
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import ExportApp, ZipCollectApp

from autograder.nbgrader.downloads import read_prefixes
from autograder.submissions.downloaded_files import interpretations
from tests.autograder.nbgrader.classroom import Classroom, run_app
from tests.autograder.nbgrader.unix_accounts import accounts, why_unavailable
from tests.autograder.small_course import LESSON, SmallCourse
from tests.small_disk import small_disk

pytestmark = pytest.mark.slow

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
    # The first number, not the name, identifies the student. Of several uploads, the latest counts.
    f"janedoesmith_LATE_101_9001_{LESSON}.ipynb": "jane, first",
    f"janedoesmith_LATE_101_10002_{LESSON}-1.ipynb": "jane, last",
    "janedoesmith_LATE_101_10003_essay.md": "jane's essay",
    "janedoesmith_LATE_101_10004_check_log.jsonl": "jane's log",
    "janedoesmith_LATE_101_10005_notes.pdf": "not for grading",
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
def downloads(classroom: Classroom) -> Classroom:
    """A course with a class, and the two archives where the command expects them."""
    with Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db") as gradebook:
        for student, (first, last, number) in STUDENTS.items():
            gradebook.add_student(
                student,
                first_name=first,
                last_name=last,
                lms_user_id=number or None,
                email=f"{student}@x.org",
            )
    archive = classroom.course / "autograder/downloaded" / LESSON / "archive"
    archive.mkdir(parents=True)
    write(archive / "ml_2026_101_scores submissions.zip", CANVAS)
    write(archive / "ML-Scores-771.zip", MOODLE)
    return classroom


def write(path: Path, files: Mapping[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def collected(classroom: Classroom) -> dict[str, str]:
    """Return the contents of the collected files, by student and file."""
    folder = classroom.course / "autograder/submitted"
    return {
        f"{path.relative_to(folder).parts[0]}/{path.name}": path.read_text(encoding="utf-8")
        for path in folder.glob(f"*/{LESSON}/*")
    }


def collect(classroom: Classroom, monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    return run_app(monkeypatch, ZipCollectApp, classroom.course / "autograder", *options, LESSON)


def test_each_notebook_gets_the_lessons_name_in_its_students_folder(
    downloads: Classroom, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert collect(downloads, monkeypatch) == 1  # because, for example, Alex Kim's upload is not collected
    assert collected(downloads) == {
        f"jdoe/{LESSON}.ipynb": "jane, last",
        "jdoe/check_log.jsonl": "jane's log",
        f"jmueller/{LESSON}.ipynb": "jürgen",
        f"long/{LESSON}.ipynb": "long",
        f"sobrien/{LESSON}.ipynb": "siobhán",
        f"zoe/{LESSON}.ipynb": "zoë",
    }
    said = capfd.readouterr().err
    refused = [line for line in said.splitlines() if "was not collected" in line]
    named = ("guest_999_", "kimalex_104_", "guest_998_", "Alex Kim_57_", "Alex Kim_58_")
    assert len(refused) == len(named)
    assert all(any(name in line for line in refused) for name in named)
    assert "late, but its file names don't say by how much: jdoe." in said


def test_a_lesson_without_downloads_is_an_error(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert collect(classroom, monkeypatch) == 1
    folder = classroom.course / f"autograder/downloaded/{LESSON}/archive"
    assert f"There is no folder {folder}. Put the downloads there" in capfd.readouterr().err


def test_feedback_returns_under_the_names_of_the_downloaded_notebooks(
    downloads: Classroom, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    collect(downloads, monkeypatch)
    autograder = downloads.course / "autograder"
    for student in ("jdoe", "sobrien", "zoe", "alex1"):
        page = autograder / "feedback" / student / LESSON / f"{LESSON}.html"
        page.parent.mkdir(parents=True)
        page.write_text(f"for {student}")
    options = ["--exporter=autograder.reports.learning_management.FeedbackArchive", f"--assignment={LESSON}"]
    assert run_app(monkeypatch, ExportApp, autograder, *options) == 0
    with zipfile.ZipFile(autograder / f"feedback-{LESSON}.zip") as archive:
        pages = {name: archive.read(name).decode() for name in archive.namelist()}
    assert pages == {
        f"janedoesmith_LATE_101_10002_{LESSON}.html": "for jdoe",
        f"Siobhán OBrien_55_assignsubmission_file_{LESSON}.html": "for sobrien",
        f"Zoë de la Cruz_56_assignsubmission_file_{LESSON}.html": "for zoe",
    }
    said = capfd.readouterr().err
    assert "jmueller, long: not in the archive, because there is no feedback" in said
    assert "alex1: not in the archive, because the submission is not from a download" in said


def test_a_student_who_is_not_collected_again_keeps_the_earlier_name(
    downloads: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect(downloads, monkeypatch)
    archive = downloads.course / "autograder/downloaded" / LESSON / "archive"
    shutil.rmtree(archive)
    archive.mkdir()
    write(archive / "second.zip", {f"doejane_101_20000_{LESSON}.ipynb": "jane's second"})
    assert collect(downloads, monkeypatch) == 1  # because Jane has a submission already
    assert read_prefixes(archive.parent)["jdoe"] == "janedoesmith_LATE_101_10002_"
    assert collect(downloads, monkeypatch, "--force") == 0
    names = read_prefixes(archive.parent)
    assert (names["jdoe"], names["zoe"]) == ("doejane_101_20000_", "Zoë de la Cruz_56_assignsubmission_file_")


def test_the_files_that_the_lesson_asks_for_are_collected_too(
    downloads: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = SmallCourse(downloads.course)
    hand_in = '[[lessons.hand_ins]]\nname = "hand_in_essay"\nfile = "essay.md"\npoints = 1\n'
    course.change_manifest("[[lessons.explanations]]", f"{hand_in}\n[[lessons.explanations]]")
    course.change_source("# %% [markdown]\n# Why", '# %% check="hand_in_essay"\n\n# %% [markdown]\n# Why')
    assert collect(downloads, monkeypatch) == 1  # because Alex Kim's upload is not collected, for example
    assert collected(downloads)["jdoe/essay.md"] == "jane's essay"


def test_an_assignment_outside_the_curriculum_has_notebooks_alone(
    downloads: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = downloads.course / "autograder/downloaded/essay/archive"
    archive.mkdir(parents=True)
    write(archive / "essay.zip", {"doejane_101_1_essay.ipynb": "jane's", "doejane_101_2_config.yaml": "a: 1"})
    assert run_app(monkeypatch, ZipCollectApp, downloads.course / "autograder", "essay") == 0
    folder = downloads.course / "autograder/submitted/jdoe/essay"
    assert [path.name for path in folder.iterdir()] == ["essay.ipynb"]


def test_collecting_needs_no_torch() -> None:
    code = "import sys, autograder.nbgrader.downloads; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


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
    downloads: Classroom, roster: str, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(downloads.course / "autograder")
    Path("roster.csv").write_text(roster, encoding="utf-8-sig")
    assert collect(downloads, monkeypatch, "--DownloadCollector.roster=roster.csv") == 1
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
    assert list(interpretations(tmp_path / path, Path(path).parts)) == []


def test_a_name_inside_another_archive_replaces_no_upload(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The instructor has unpacked the download, so each archive in it was made by a student."""
    with Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db") as gradebook:
        gradebook.add_student("jdoe", first_name="Jane", last_name="Doe", lms_user_id="101")
    archive = classroom.course / "autograder/downloaded" / LESSON / "archive"
    archive.mkdir(parents=True)
    (archive / f"doejane_101_500_{LESSON}.ipynb").write_text("jane's own")
    write(archive / "mallorymal_99_501_work.zip", {f"doejane_101_999_{LESSON}.ipynb": "by mallory"})
    assert collect(classroom, monkeypatch) == 0
    assert collected(classroom) == {f"jdoe/{LESSON}.ipynb": "jane's own"}


def zipped(*files: tuple[str, bytes], links: Collection[str] = ()) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns about a name that occurs twice
        for name, text in files:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFLNK | 0o777 if name in links else 0) << 16
            archive.writestr(info, text)
    return content.getvalue()


def tarred(*members: tuple[str, dict[str, Any]]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, attributes in members:
            member = tarfile.TarInfo(name)
            for key, value in attributes.items():
                setattr(member, key, value)
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return content.getvalue()


def encrypted(archive: bytes) -> bytes:
    flagged = bytearray(archive)
    for header, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        flagged[flagged.index(header) + flags] |= 1
    return bytes(flagged)


MINE = (f"{LESSON}.ipynb", b"mine")
MANY = [(f"{number}.txt", b"") for number in range(1_000)]
DEEP = zipped(("3.zip", zipped(("4.zip", zipped(MINE)))))
#: By file name: a student's upload, the reason why part of it isn't unpacked, and whether the notebook is
#: still collected.
HOSTILE = {
    "path.zip": (zipped(("../../../evil", b""), MINE), "its path leads out of the archive", True),
    "windows.zip": (zipped(("..\\..\\evil", b""), MINE), "its path leads out of the archive", True),
    "root.zip": (zipped(("/evil", b""), MINE), "its path leads out of the archive", True),
    "folders.zip": (zipped(("a/" * 31 + "a", b""), MINE), "its folders are nested more than 30 deep", True),
    "link.zip": (zipped(("passwd", b"/etc/passwd"), MINE, links={"passwd"}), "symbolic link", True),
    "twice.zip": (zipped(MINE, MINE), "another file has the same path", True),
    "bomb.zip": (zipped(MINE, ("zeros", bytes(3_000_000))), "it is larger than 1 MB", True),
    "bombs.zip": (
        zipped(*((f"{n}.txt", bytes(900_000)) for n in range(9)), MINE),
        "its unpacked content is too large",
        False,
    ),
    "files.zip": (zipped(*MANY, MINE), "it contains more than 1000 files", False),
    "nested.zip": (DEEP, "archives may be nested at most 3 deep", False),
    "secret.zip": (encrypted(zipped(MINE)), "is encrypted", False),
    "cut.zip": (zipped(MINE)[:-20], "not a zip file", False),
    "link.tar.gz": (
        tarred(("a", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}), (MINE[0], {"size": 4})),
        "it is a link or a device",
        True,
    ),
    "header.tar.gz": (
        tarred(("a", {"pax_headers": {"comment": "x" * 3_000_000}})),
        "its unpacked content is too large",
        False,
    ),
    "text.gz": (b"not compressed", "Not a gzipped file", False),
}


@pytest.fixture(params=["one archive", "unpacked"])
def hostile(classroom: Classroom, request: pytest.FixtureRequest) -> Classroom:
    """A class whose uploads are named by student number, in one archive or already unpacked."""
    umlauts = "ü" * (200 if request.param == "one archive" else 50)  # file names on disk must be shorter
    uploads = {
        f"{umlauts}_901_1_{LESSON}.ipynb": b"umlauts",
        f"x_902_2_{umlauts} é.zip": zipped(("ä/ö b.ipynb", b"folder")),
    }
    for number, (name, (upload, _, _)) in enumerate(HOSTILE.items()):
        uploads[f"name_{number}_{number}_{name}"] = upload
    with Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db") as gradebook:
        for number in (*range(len(HOSTILE)), 901, 902):
            gradebook.add_student(f"s{number}", lms_user_id=str(number))
    archive = classroom.course / "autograder/downloaded" / LESSON / "archive"
    archive.mkdir(parents=True)
    if request.param == "one archive":
        (archive / "all.zip").write_bytes(zipped(*uploads.items()))
    else:
        for name, upload in uploads.items():
            (archive / name).write_bytes(upload)
    return classroom


def test_no_archive_of_one_student_stops_the_others(
    hostile: Classroom, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    outside = set(hostile.course.parent.iterdir())
    assert collect(hostile, monkeypatch, "--CourseDirectory.max_file_size=1000") == 1
    said = [line for line in capfd.readouterr().err.splitlines() if "was not unpacked" in line]
    found = collected(hostile)
    assert found.pop(f"s901/{LESSON}.ipynb") == "umlauts"
    assert found.pop(f"s902/{LESSON}.ipynb") == "folder"
    for number, (name, (_, reason, is_collected)) in enumerate(HOSTILE.items()):
        assert [line for line in said if f"name_{number}_" in line and reason in line], (name, said)
        assert (f"s{number}/{LESSON}.ipynb" in found) == is_collected, name
    assert len(said) == len(HOSTILE)
    assert set(hostile.course.parent.iterdir()) == outside
    assert not list(hostile.course.rglob("*evil*"))
    assert not [path for path in hostile.course.rglob("*") if path.is_symlink()]


def test_a_full_disk_keeps_what_was_collected_before(
    downloads: Classroom, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    earlier = downloads.hand_in("jdoe", b"earlier")
    archive = downloads.course / "autograder/downloaded" / LESSON / "archive"
    (archive / "ml_2026_101_scores submissions.zip").unlink()
    write(archive / "new.zip", {f"doejane_101_1_{LESSON}.ipynb": "x" * 100_000})
    with small_disk(downloads.course / "autograder/submitted", kilobytes=64):
        assert collect(downloads, monkeypatch, "--force") == 1
        assert (earlier / f"{LESSON}.ipynb").read_text() == "earlier"
        assert [path.name for path in earlier.iterdir()] == [f"{LESSON}.ipynb"]
        shutil.rmtree(earlier)
        assert collect(downloads, monkeypatch) == 1
        assert not earlier.exists()
        downloads.hand_in("jdoe", b"earlier")
    assert "No space left on device" in capfd.readouterr().err
    assert collect(downloads, monkeypatch, "--force") == 1  # because Alex Kim's upload is not collected
    assert collected(downloads)[f"jdoe/{LESSON}.ipynb"] == "x" * 100_000


def test_an_earlier_submission_does_not_keep_others_from_being_collected(
    downloads: Classroom, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    collect(downloads, monkeypatch)
    everyone = {path.split("/")[0] for path in collected(downloads)}
    shutil.rmtree(downloads.course / "autograder/submitted")
    shutil.rmtree(downloads.course / "autograder/downloaded" / LESSON / "extracted")
    earlier = downloads.hand_in("jdoe", b"earlier")
    capfd.readouterr()
    assert collect(downloads, monkeypatch) == 1
    said = capfd.readouterr().err
    assert "jdoe: not collected" in said
    assert "contains an earlier submission. To replace it, add --force." in said
    assert (earlier / f"{LESSON}.ipynb").read_text() == "earlier"
    assert {path.split("/")[0] for path in collected(downloads)} == everyone


@pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
@pytest.mark.parametrize("locked", ["downloaded/01-scores", "downloaded/01-scores/extracted", "submitted"])
@pytest.mark.parametrize("options", [(), ("--force",)])
def test_a_folder_that_belongs_to_another_grader_is_named(
    downloads: Classroom, monkeypatch: pytest.MonkeyPatch, locked: str, options: tuple[str, ...]
) -> None:
    folder = downloads.course / "autograder"
    (folder / "downloaded" / LESSON / "extracted").mkdir()
    (folder / "submitted").mkdir(exist_ok=True)
    codecs.lookup("cp437")  # Import it here: another account may be unable to read Python's own files.
    with tempfile.TemporaryDirectory(prefix="zip-") as name, accounts("second") as [second]:
        Path(name).chmod(0o755)
        course = Classroom(Path(shutil.copytree(downloads.course, Path(name, "course"))))
        for path in (course.course, *course.course.rglob("*")):
            os.chown(path, second.uid, second.group)
        os.chown(course.course / "autograder" / locked, 0, 0)
        code, printed = second.call(lambda: sys.exit(collect(course, monkeypatch, *options)))
    assert code == 1
    assert f"{locked} belongs to root, and you cannot write to it." in printed
    assert "Traceback" not in printed
