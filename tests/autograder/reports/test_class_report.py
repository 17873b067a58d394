"""The class report: for a class, for an empty gradebook, and for files that cannot be read."""

import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pandas as pd
import pytest

from autograder.reports.class_report import as_csv
from autograder.reports.class_report.charts import misconceptions_chart
from autograder.reports.class_report.teaching import differing_lines, explanations
from course_lib.checks.exercises.registry import catalogue
from tests.autograder.reports.graded_class import (
    CODE,
    NOT_SCALED,
    RIGHT,
    GradedClass,
    copy_of,
    empty_course,
    folder_of,
)
from tests.nbgrader_command import nbgrader

pytestmark = pytest.mark.slow


Report = tuple[str, dict[str, pd.DataFrame]]


@pytest.fixture(scope="module")
def two_lessons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a course with three lessons, where students handed in work for two of them."""
    empty = empty_course(tmp_path_factory)
    for lesson in ("01-first", "02-second", "03-third"):
        empty.release(lesson)
    full = {"check_scores": 4.0, "check_guess": 1.0, "explain": None}
    some = {"check_scores": 2.0, "check_guess": 0.0, "explain": 0.0}
    empty.hand_in("ann", "01-first", full, {"scores": RIGHT, "guess": RIGHT}, -1)
    empty.hand_in("ben", "01-first", some, {"scores": NOT_SCALED, "guess": {"verdict": "wrong"}}, 0.5)
    empty.hand_in("cem", "01-first", some, {"scores": NOT_SCALED, "guess": {"verdict": "unwritten"}}, -1)
    violations = ["asked for 10.0.0.1:443"]
    empty.hand_in("ann", "02-second", full, {"scores": RIGHT, "guess": RIGHT}, 6, violations=violations)
    empty.hand_in("ben", "02-second", some, {"scores": NOT_SCALED, "guess": RIGHT}, -0.5)
    return folder_of(empty)


@pytest.fixture(scope="module")
def report(two_lessons: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    """The report on this course: the page and its tables."""
    for graded in copy_of(two_lessons, tmp_path_factory.mktemp("reported")):
        yield graded.report()


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GradedClass]:
    """A course with an empty gradebook."""
    course = empty_course(tmp_path_factory)
    yield course
    course.gradebook.close()


@pytest.fixture
def graded(two_lessons: Path, tmp_path: Path) -> Iterator[GradedClass]:
    """A copy of the course, which tests may change."""
    yield from copy_of(two_lessons, tmp_path)


def test_scores_leave_out_what_a_person_has_to_give(report: Report) -> None:
    _, tables = report
    scores = tables["scores"].set_index(["lesson", "student"])
    ann, ben = scores.loc[("01-first", "ann")], scores.loc[("01-first", "ben")]
    assert (ann["state"], ann["points"], ann["still_open"], ann["share"]) == ("needs manual grading", 5, 2, 1)
    assert (ben["state"], ben["points"], ben["of"], ben["share"]) == ("graded", 2, 7, 0.2857)
    assert list(scores.loc["03-third"]["state"]) == ["not handed in"] * 3
    assert scores.loc[("02-second", "cem"), "state"] == "not handed in"


def test_points_by_exercise_count_students_and_verdicts(graded: GradedClass) -> None:
    _, tables = graded.report(assignment=["01-first"])
    rows = tables["points_by_exercise"].set_index("exercise")
    scores, guess, explain = (rows.loc[name] for name in ("scores", "guess", "explain"))
    assert list(scores[["full", "partial", "none", "waiting"]]) == [1, 2, 0, 0]
    assert scores["mean_share"] == pytest.approx((1 + 0.5 + 0.5) / 3, abs=1e-4)
    assert (scores["known_mistake"], guess["other_mistake"], guess["not_written"]) == (2, 1, 1)
    assert list(explain[["full", "partial", "none", "waiting"]]) == [0, 0, 2, 1]


def test_totals_count_a_missing_lesson_as_zero_and_leave_open_points_out(report: Report) -> None:
    _, tables = report
    totals = tables["totals"].set_index("student")
    # Nobody has handed in the third lesson, so it does not count yet.
    assert list(totals.loc["ann"][["points", "of", "share"]]) == [10, 14, 1]
    assert list(totals.loc["cem"][["points", "of"]]) == [2, 14]


def test_work_that_only_a_person_can_grade_is_graded(empty: GradedClass) -> None:
    empty.gradebook.add_assignment("essay")
    empty.gradebook.add_notebook("essay", "essay")
    empty.gradebook.add_grade_cell("explain", "essay", "essay", max_score=2, cell_type="markdown")
    empty.hand_in("ann", "essay", {}, {}, -1, complete=True)
    empty.hand_in("ben", "essay", {}, None, -1)
    page, tables = empty.report()
    states = tables["scores"].set_index("student")["state"]
    assert (states["ann"], states["ben"]) == ("needs manual grading", "not graded")
    assert page.count("did not finish grading it") == 1


def test_a_folder_whose_name_is_not_utf_8_stops_no_report(graded: GradedClass) -> None:
    os.makedirs(os.fsencode(graded.root) + b"/autograder/submitted/b\xfcrger/01-first")
    page, _ = graded.report()
    assert "b?rger" in page


def test_students_who_are_behind_are_listed_with_what_they_lack(report: Report) -> None:
    page, tables = report
    cem, ben = tables["students_to_help"].itertuples()
    assert (cem.student, cem.not_handed_in, cem.weak_exercises) == ("cem", "02-second", "guess; explain")
    assert (ben.student, ben.share) == ("ben", pytest.approx(4 / 14, abs=1e-3))
    assert "Who needs help" in page
    assert "/formgrader" not in page


def test_a_statement_with_a_semicolon_is_one_mistake(graded: GradedClass) -> None:
    mistake = NOT_SCALED | {"statements": ["one; two; three; four"]}
    points = {"check_scores": 0.0, "check_guess": 0.0, "explain": 0.0}
    graded.hand_in("dee", "01-first", points, {"scores": mistake, "guess": RIGHT})
    page, tables = graded.report(student=["dee"])
    assert tables["students_to_help"]["mistakes"][0] == "one; two; three; four"
    assert "<td>one; two; three; four</td>" in page


def test_links_lead_to_formgrader(graded: GradedClass) -> None:
    page, _ = graded.report(formgrader="https://hub.example.org/formgrader/")
    assert 'href="https://hub.example.org/formgrader/manage_students/cem"' in page
    assert 'href="https://hub.example.org/formgrader/gradebook/01-first"' in page


def test_discrimination_is_the_correlation_with_the_rest_of_the_lesson(empty: GradedClass) -> None:
    empty.release("01-first")
    for number in range(12):
        good = number % 2
        points = {"check_scores": 4.0 * good, "check_guess": 1.0 * (number < 6), "explain": 2.0 * good}
        empty.hand_in(f"s{number}", "01-first", points)
    _, tables = empty.report()
    found = tables["points_by_exercise"].set_index("exercise")["discrimination"]
    rest = [2.0 * (number % 2) + (number < 6) for number in range(12)]
    expected = pd.Series([4.0 * (number % 2) for number in range(12)]).corr(pd.Series(rest))
    assert found["scores"] == pytest.approx(expected, abs=1e-3)
    assert abs(found["guess"]) < 0.2 < found["explain"]


def test_the_lines_that_differ_from_the_reference_are_found() -> None:
    code = catalogue()["shift_target"].source.replace(
        "target[:, :-1], target[:, 1:]", "target, target[:, 1:]"
    )
    pieces = differing_lines(f"# a comment\n{code}", "shift_target")
    assert [(piece.of, piece.parts) for piece in pieces if piece.of != "both"] == [
        ("first", ["    return (target, target[:, 1:])"]),
        ("second", ["    return (target[:, :-1], target[:, 1:])"]),
    ]
    assert differing_lines("def shift_target(:", "shift_target") == []
    assert differing_lines("def shift_target(t):\n    return t", "no_exercise") == []


def test_common_mistakes_are_explained_in_the_words_of_the_checks() -> None:
    known = catalogue()["shift_target"].misconceptions[0]
    made = {
        "exercise": ["shift_target", "gone"],
        "misconception": [known.name, "x"],
        "students": 3,
        "of_students": 5,
    }
    [(row, explanation)] = explanations(pd.DataFrame(made))
    assert (row["students"], explanation) == (3, known)


def test_the_explanation_of_a_mistake_says_what_to_read(
    graded: GradedClass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(catalogue(), "scores", catalogue()["attention_scores"])
    page, _ = graded.report()
    assert '<span class="quiet">Read: the paper, section 3.2.1, equation 1' in page


def test_misconceptions_are_counted_with_an_example(report: Report) -> None:
    page, tables = report
    first, second = tables["misconceptions"].itertuples()
    assert (first.lesson, first.misconception, first.students, first.of_students) == (
        "01-first",
        "not_scaled",
        2,
        3,
    )
    assert (second.lesson, second.students, second.of_students) == ("02-second", 1, 2)
    assert first.example == CODE
    assert first.all_students == "ben; cem"
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page


def test_times_lie_between_the_same_students_hand_ins(report: Report) -> None:
    _, tables = report
    rows = tables["time_per_lesson"].set_index(["lesson", "student"])
    assert rows.loc[("02-second", "ann"), "days_since_lesson_before"] == 7
    # ben handed the second lesson in before the first.
    assert pd.isna(rows.loc[("02-second", "ben"), "days_since_lesson_before"])
    assert pd.isna(rows.loc[("01-first", "ann"), "days_since_lesson_before"])
    assert list(rows.loc["01-first"]["hours_late"]) == [0, 12, 0]


def test_an_extension_moves_the_due_date(graded: GradedClass) -> None:
    graded.gradebook.grant_extension("01-first", "ben", hours=10)
    _, tables = graded.report(student=["ben"])
    assert tables["time_per_lesson"]["hours_late"][0] == 2


def test_what_needs_a_person_is_listed_the_most_urgent_first(graded: GradedClass) -> None:
    (graded.root / "autograder" / "not_graded.json").write_text(json.dumps({"01-first": {"dee": "no JSON"}}))
    grade = graded.gradebook.find_grade("check_scores", "02-second", "02-second", "ben")
    grade.manual_score, grade.needs_manual_grade = 3.0, True
    graded.gradebook.db.commit()
    page, tables = graded.report()
    rows = tables["needs_a_human"]
    assert list(rows["kind"]) == [
        "not graded",
        "limit exceeded or crash",
        "graded by hand before",
        "explanation",
        "explanation",
    ]
    assert list(rows["student"]) == ["dee", "ann", "ben", "ann", "ann"]
    for words in ("no JSON", "asked for 10.0.0.1:443", "a person gave 3 of 4 points"):
        assert words in page
    # Points given by a person count until a person changes them.
    assert tables["scores"].set_index(["lesson", "student"]).loc[("02-second", "ben"), "points"] == 3


def test_what_was_handed_in_and_never_graded_is_listed(graded: GradedClass) -> None:
    graded.course.student_id_exclude = "guest"
    for student in ("eve", "guest"):
        (graded.root / "autograder" / "submitted" / student / "02-second").mkdir(parents=True)
    _, tables = graded.report()
    [row] = tables["needs_a_human"].query("student == 'eve'").itertuples()
    assert (row.kind, row.lesson) == ("not graded", "02-second")
    assert "guest" not in set(tables["needs_a_human"]["student"])


def test_an_empty_gradebook_is_said_to_be_empty(empty: GradedClass) -> None:
    page, tables = empty.report()
    assert "The gradebook has no lessons yet." in page
    assert all(table.empty for table in tables.values())
    assert "<svg" not in page


def test_a_lesson_that_nobody_handed_in_is_said_to_be_so(empty: GradedClass) -> None:
    empty.release("01-first")
    page, _ = empty.report()
    assert "The gradebook has no students yet" in page
    assert "nobody has handed it in" in page


def test_plain_nbgraders_notebooks_count_for_points_alone(empty: GradedClass) -> None:
    empty.release("01-first", due=None)
    empty.hand_in("ann", "01-first", {"check_scores": 4.0, "check_guess": 0.0, "explain": 1.0})
    page, tables = empty.report()
    assert list(tables["scores"]["points"]) == [5]
    assert "1 graded submission has points but no verdicts" in page
    assert "The checks have not recognised any mistake so far." in page


@pytest.mark.parametrize("spoilt", [b"{", b"[]", b'{"nbformat": 4, "cells": 3}', b"\xff\xfe", b""])
def test_a_notebook_that_cannot_be_read_is_named(graded: GradedClass, spoilt: bytes) -> None:
    path = graded.root / "autograder" / "autograded" / "ben" / "01-first" / "01-first.ipynb"
    path.write_bytes(spoilt)
    page, tables = graded.report()
    assert "The autograded notebook of ben for 01-first cannot be read" in page
    assert tables["misconceptions"]["students"][0] == 1
    assert len(tables["scores"].query("points == 2")) == 3


def test_odd_notes_in_a_notebook_are_passed_over(graded: GradedClass) -> None:
    path = graded.root / "autograder" / "autograded" / "ben" / "01-first" / "01-first.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.course_grading = {"repairs": 7, "findings": ["x"]}
    notebook.cells[1].outputs[0].metadata.course = {"verdict": ["wrong"]}
    nbformat.write(notebook, path)
    _, tables = graded.report()
    assert tables["misconceptions"]["students"][0] == 1


def test_a_list_of_the_ungraded_that_cannot_be_read_is_said_to_be_so(graded: GradedClass) -> None:
    (graded.root / "autograder" / "not_graded.json").write_text("[1")
    page, _ = graded.report()
    assert "autograder/not_graded.json cannot be read" in page


def test_the_same_class_gives_the_same_bytes(graded: GradedClass) -> None:
    first, _ = graded.report()
    second, _ = graded.report()
    assert first == second
    assert first.count("<svg") == 5
    assert len(first) < 300_000


def test_the_page_asks_for_nothing_and_says_what_its_pictures_show(report: Report) -> None:
    page, _ = report
    assert not re.search(r"""(src|href|url)\s*[=(]\s*["']?(https?:)?//""", page)
    descriptions = re.findall(r'<svg role="img" aria-label="([^"]*)"', page)
    assert len(descriptions) == 5
    assert all(len(text) > 40 for text in descriptions)


def test_names_are_text(graded: GradedClass) -> None:
    graded.gradebook.update_or_create_student("ann", first_name="<b>Ann</b>", last_name="=1+1")
    page, tables = graded.report()
    assert "&lt;b&gt;Ann&lt;/b&gt; =1+1" in page
    assert "<b>Ann" not in page
    assert "<b>Ann</b> =1+1" in set(tables["scores"]["name"])


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum", "\tx"])
def test_a_spreadsheet_takes_no_text_for_a_formula(text: str) -> None:
    table = as_csv(pd.DataFrame({"student": [text], "points": [-1.5]}))
    assert pd.read_csv(io.StringIO(table))["student"][0] == f"'{text}"
    assert pd.read_csv(io.StringIO(table))["points"][0] == -1.5


def test_the_command_writes_page_and_tables(graded: GradedClass) -> None:
    (graded.root / "nbgrader_config.py").write_text(
        'c = get_config()\nc.CourseDirectory.autograded_directory = "autograder/autograded"\n'
        'c.CourseDirectory.course_id = "a-course"\n'
    )
    exporter = "--exporter=autograder.reports.class_report.ClassReport"
    nbgrader(graded.root, "export", exporter, "--to", "mine/report.html")
    assert {path.name for path in (graded.root / "mine" / "report").iterdir()} == {
        "totals.csv",
        "students_to_help.csv",
        "scores.csv",
        "points_by_exercise.csv",
        "misconceptions.csv",
        "time_per_lesson.csv",
        "needs_a_human.csv",
        "similar_answers.csv",
    }
    assert "the scores are not divided" in (graded.root / "mine" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("maximum", "ticks"), [(1, [0, 1]), (2, [0, 1, 2]), (12, [0, 3, 6, 9, 12])])
def test_the_axis_of_mistakes_has_whole_numbers(maximum: int, ticks: list[int]) -> None:
    table = pd.DataFrame(
        {"exercise": ["scores"], "statement": ["they are not divided"], "students": [maximum]}
    )
    chart = misconceptions_chart(SimpleNamespace(misconceptions=table)).to_dict()
    assert chart["layer"][0]["encoding"]["x"]["axis"]["values"] == ticks


def test_an_example_of_code_shows_its_last_line(graded: GradedClass) -> None:
    path = graded.root / "autograder" / "autograded" / "ben" / "01-first" / "01-first.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.metadata.nbgrader.grade_id == "scores":
            cell.source = "x = 1\n" * 44 + "return the_wrong_line"
    nbformat.write(notebook, path)
    page, _ = graded.report(student=["ben"])
    assert "return the_wrong_line" in page


def test_notes_on_one_submission_share_a_row(graded: GradedClass) -> None:
    path = graded.root / "autograder" / "autograded" / "ben" / "01-first" / "01-first.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.course_grading = {"tampering": [f"cell {number} was changed" for number in range(9)]}
    nbformat.write(notebook, path)
    page, tables = graded.report()
    assert list(tables["needs_a_human"]["kind"]).count("tampering") == 9
    assert page.count("<td>tampering</td>") == 1
    assert "cell 8 was changed" in page


def test_many_waiting_names_are_collapsed(empty: GradedClass) -> None:
    empty.release("01-first")
    for number in range(12):
        empty.hand_in(f"s{number:02}", "01-first", {"check_scores": 4.0, "check_guess": 1.0, "explain": None})
    page, _ = empty.report()
    assert "<summary>12 students</summary>" in page
