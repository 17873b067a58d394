"""`nbgrader db student import` with damaged or ambiguous rosters imports either everybody or nobody."""

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps.dbapp import DbStudentImportApp

from tests.autograder.nbgrader.classroom import Classroom, run_app

LONG = "ü" * 200
HEADER = "id,first_name,last_name,email,lms_user_id\n"


def run_import(classroom: Classroom, roster: bytes, monkeypatch: pytest.MonkeyPatch) -> int:
    folder = classroom.course / "autograder"
    (folder / "students.csv").write_bytes(roster)
    return run_app(monkeypatch, DbStudentImportApp, folder, "students.csv")


def students(classroom: Classroom) -> dict[str, str]:
    with Gradebook(f"sqlite:///{classroom.course}/autograder/gradebook.db") as gradebook:
        return {student.id: student.last_name for student in gradebook.students}


def test_a_roster_from_excel_with_equal_rows_is_imported(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = f'anna,Anna,"{LONG}",a@x.org,1\nanna,Anna,"{LONG}",a@x.org,1\njosé o\'neil,José,"Ö, b",,\n'
    assert run_import(classroom, ("\ufeff" + HEADER + rows + "\n").encode(), monkeypatch) == 0
    assert students(classroom) == {"anna": LONG, "josé o'neil": "Ö, b"}


@pytest.mark.parametrize(
    ("roster", "reason"),
    [
        (
            HEADER + "anna,A,B,,\nbela,C,D,,\nanna,E,F,,\n",
            "rows 2 and 4: different students have the id 'anna'",
        ),
        (HEADER + "anna,A,B,a@x.org,\nbela,C,D,a@x.org,\n", "have the email 'a@x.org'"),
        (HEADER + "anna,A,B,,1\nbela,C,D,,1\n", "have the lms_user_id '1'"),
        (
            HEADER + "anna,A,B,,\n,C,D,,\n",
            "row 3: expected an id without a slash or spaces around it, found ''",
        ),
        (HEADER + "anna,A,B,,\n../bela,C,D,,\n", "found '../bela'"),
        (HEADER + "anna,A,B,,\nbela,C,D, Jr.,x@x.org,\n", "row 3: expected 5 values, found 6"),
        ("id,email,email\nanna,a,b\n", "the column email occurs more than once"),
        ("id;first_name\nanna;A\n", "expected column names separated by commas, including id"),
        ("", "expected column names"),
        (HEADER + 'anna,"A,B,,\n', "it is not a CSV file in UTF-8"),
        ((HEADER + "anna,Ä,B,,\n").encode("latin-1"), "it is not a CSV file in UTF-8"),
    ],
)
def test_a_roster_that_is_ambiguous_or_damaged_imports_nobody(
    classroom: Classroom,
    roster: str | bytes,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    content = roster if isinstance(roster, bytes) else roster.encode()
    assert run_import(classroom, content, monkeypatch) == 1
    assert reason in capfd.readouterr().err
    assert students(classroom) == {}
