"""Exports for Canvas and Moodle, read back by the names of their columns."""

import csv
import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.reports.csv_export import CsvExport
from autograder.reports.exporter import CourseExporter
from autograder.reports.learning_management import CanvasExport, FeedbackArchive, MoodleExport
from tests.autograder.reports.graded_class import GradedClass, copy_of, empty_course, folder_of

pytestmark = pytest.mark.slow

DONE = {"check_scores": 4.0, "check_guess": 0.5, "explain": 1.0}
OPEN = {"check_scores": 4.0, "check_guess": 0.5, "explain": None}

CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,01-first (771),Homework (12),Final
    Points Possible,,,,,7,10,(read only)
"Ås, Ann",31,,ann,A,,9,90
"Guest, Gus",33,,gus,A,,,
"Student, Test",34,,2f3e,A,,,
"""
MOODLE = """\
First name,Last name,ID number,Email address,Assignment: 01-first (Real),Assignment: 02-second (Real),At
Ann,Ås,,ann@example.org,-,-,1791
Ben,,77,ben@example.org,-,-,1791
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graded = empty_course(tmp_path_factory)
    graded.release("01-first")
    graded.release("02-second")
    graded.gradebook.add_student("ann", first_name="Ann", last_name="Ås", email="ann@example.org")
    graded.gradebook.add_student("ben", first_name="Ben", lms_user_id="77")
    graded.hand_in("ann", "01-first", DONE)
    graded.hand_in("ben", "01-first", OPEN)
    graded.hand_in("ben", "02-second", DONE)
    graded.gradebook.find_submission_notebook("02-second", "02-second", "ben").late_submission_penalty = 2.0
    graded.gradebook.db.commit()
    return folder_of(graded)


@pytest.fixture
def graded(folder: Path, tmp_path: Path) -> Iterator[GradedClass]:
    yield from copy_of(folder, tmp_path)


def roster_of(graded: GradedClass, text: str, encoding: str = "utf-8") -> str:
    """Write a roster next to the gradebook, and return its path."""
    path = graded.root / "roster.csv"
    path.write_text(text, encoding=encoding)
    return str(path)


def rows_of(exporter: CanvasExport | MoodleExport, graded: GradedClass) -> list[dict[str, str]]:
    exporter.to = str(graded.root / "out.csv")
    exporter.export(graded.gradebook)
    return list(csv.DictReader(io.StringIO(Path(exporter.to).read_text(encoding="utf-8"))))


def test_canvas_without_a_roster_has_its_columns_and_only_final_points(graded: GradedClass) -> None:
    possible, ann, ben = rows_of(CanvasExport(), graded)
    assert (possible["Student"].strip(), possible["01-first"]) == ("Points Possible", "7")
    assert (ann["Student"], ann["SIS Login ID"], ann["01-first"]) == ("Ås, Ann", "ann", "5.5")
    assert (ben["ID"], ben["01-first"], ben["02-second"]) == ("77", "", "3.5")


def test_canvas_with_a_roster_keeps_its_rows_and_adds_lessons(
    graded: GradedClass, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = CanvasExport(roster=roster_of(graded, CANVAS, "utf-8-sig"))
    exporter.log = logging.getLogger("test")
    possible, ann, gus = rows_of(exporter, graded)
    assert (ann["ID"], ann["01-first (771)"], ann["Homework (12)"], ann["02-second"]) == (
        "31",
        "5.5",
        "9",
        "",
    )
    assert (possible["01-first (771)"], possible["02-second"], gus["01-first (771)"]) == ("7", "7", "")
    assert "Guest, Gus is in" in caplog.text
    assert "ben is in the gradebook but not in" in caplog.text
    assert "01-first: answers of ben still have to be marked" in caplog.text
    assert "change the assignment" not in caplog.text


def test_other_points_in_canvas_are_reported(graded: GradedClass, caplog: pytest.LogCaptureFixture) -> None:
    text = CANVAS.replace(",,,,,7,10,", ",,,,,6.00,10,")
    rows_of(CanvasExport(roster=roster_of(graded, text)), graded)
    assert "01-first has 7 points, but 6.00 in Canvas: change the assignment there" in caplog.text


@pytest.mark.parametrize("exporter", [CanvasExport, MoodleExport, FeedbackArchive, CsvExport])
def test_a_lesson_that_does_not_exist_is_an_error(
    exporter: type[CourseExporter], graded: GradedClass, caplog: pytest.LogCaptureFixture
) -> None:
    target = graded.root / "out"
    with pytest.raises(SystemExit, match="1"):
        exporter(assignment=["01"], to=str(target)).export(graded.gradebook)
    assert "the gradebook has no lesson 01; it has: 01-first, 02-second" in caplog.text
    assert not target.exists()


def test_students_who_are_not_exported_are_not_called_unknown(
    graded: GradedClass, caplog: pytest.LogCaptureFixture
) -> None:
    graded.gradebook.add_student("cem", first_name="Cem")
    ann, ben = rows_of(MoodleExport(roster=roster_of(graded, MOODLE), student=["ben"]), graded)
    assert (ann["Assignment: 01-first (Real)"], ben["Assignment: 02-second (Real)"]) == ("-", "3.5")
    assert "gradebook" not in caplog.text


def test_moodle_fills_the_grade_items_of_its_export(graded: GradedClass) -> None:
    ann, ben = rows_of(MoodleExport(roster=roster_of(graded, MOODLE)), graded)
    assert (ann["Assignment: 01-first (Real)"], ann["Assignment: 02-second (Real)"]) == ("5.5", "-")
    assert (ben["Assignment: 01-first (Real)"], ben["Assignment: 02-second (Real)"]) == ("-", "3.5")


def test_email_addresses_in_capitals_are_the_same(graded: GradedClass) -> None:
    text = MOODLE.replace("ann@example.org", "Ann@Example.ORG")
    ann, _ = rows_of(MoodleExport(roster=roster_of(graded, text)), graded)
    assert ann["Assignment: 01-first (Real)"] == "5.5"


def test_moodle_fills_no_column_of_feedback(graded: GradedClass) -> None:
    tool = "Outil externe : 01-first"
    text = MOODLE.replace("Assignment: 01-first", tool).replace(",At\n", f",At,{tool} (Feedback)\n")
    ann, _ = rows_of(MoodleExport(roster=roster_of(graded, text.replace(",1791\n", ",1791,good\n"))), graded)
    assert (ann[f"{tool} (Real)"], ann[f"{tool} (Feedback)"]) == ("5.5", "good")


def test_a_number_of_canvas_that_is_another_students_name(graded: GradedClass) -> None:
    graded.gradebook.add_student("77", first_name="Seven")
    header, possible, *_ = CANVAS.splitlines()
    text = "\n".join([header, possible, "Ben,77,,ben,A,,,", "Seven,78,,77,A,,,", ""])
    ben, seven = rows_of(CanvasExport(roster=roster_of(graded, text)), graded)[1:]
    assert (ben["02-second"], seven["02-second"]) == ("3.5", "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("Name,Room\nAnn,3\n", "Moodle has no grade item for 01-first, 02-second"),
        (MOODLE.replace("ID number", "No").replace("Email address", "Mail"), "has none of the columns"),
        (MOODLE + "Ann,Ås,,ann@example.org,-,-,1\n", "has ann twice"),
        (MOODLE.replace("ben@example.org", "ann@example.org"), "row of Ben matches several students in the"),
    ],
)
def test_a_roster_that_does_not_fit_changes_no_file(
    graded: GradedClass, caplog: pytest.LogCaptureFixture, text: str, says: str
) -> None:
    with pytest.raises(SystemExit, match="1"):
        rows_of(MoodleExport(roster=roster_of(graded, text)), graded)
    assert says in caplog.text
    assert not (graded.root / "out.csv").exists()


@pytest.mark.parametrize(
    ("lessons", "prefixes", "message"),
    [
        ([], None, "choose one lesson, for example --assignment=01-attention"),
        (["01-first", "02-second"], None, "choose one lesson"),
        (
            ["01-first"],
            None,
            "contains no names of downloaded submissions; collect them with `nbgrader zip_collect",
        ),
        (["01-first"], "{", "prefixes.json is damaged"),
        (
            ["01-first"],
            '{"ann": "as_1_2_"}',
            "there is no feedback; run `nbgrader generate_feedback 01-first`",
        ),
    ],
)
def test_feedback_that_cannot_be_packed_is_an_error(
    graded: GradedClass,
    lessons: list[str],
    prefixes: str | None,
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if prefixes is not None:
        file = graded.root / "downloaded" / "01-first" / "prefixes.json"
        file.parent.mkdir(parents=True)
        file.write_text(prefixes)
    target = graded.root / "feedback.zip"
    target.write_text("the earlier archive")
    exporter = FeedbackArchive(assignment=lessons, to=str(target))
    exporter.config.CourseDirectory.root = str(graded.root)
    exporter.log = logging.getLogger("test")
    with pytest.raises(SystemExit) as ended:
        exporter.export(graded.gradebook)
    assert (ended.value.code, target.read_text()) == (1, "the earlier archive")
    assert message in caplog.text
