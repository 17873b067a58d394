"""An instructor's session in Formgrader: release, grade, read, enter points manually, generate feedback."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from playwright.sync_api import Page, expect

from autograder.demo import copy_course
from autograder.example_class import example_lesson, hand_in, partial_mistake
from autograder.release.build import COURSE
from course_lib.curriculum import Lesson
from course_lib.curriculum.course_file import load_curriculum
from tests.browser.formgrader_page import FormgraderPage
from tests.browser.jupyterlab import JupyterLab, jupyterlab
from tests.browser.screenshots import shoot
from tests.nbgrader_command import nbgrader

pytestmark = pytest.mark.browser

STUDENTS = ("amara", "bruno", "chiyo")
#: The text that a script logs to the console if it runs. It opens no dialog, because scripts in JupyterLab's
#: frame can't.
RAN = "a script of a submission ran"
ANSWER = (
    f'The variances add up. <script>console.log("{RAN}")</script>'
    f'<img src="x" onerror="console.log(\'{RAN}\')"> **Really.**'
)
COMMENT = "Nearly: say *how fast* they grow."


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A copy of the course without a gradebook or releases."""
    root = tmp_path / "course"
    copy_course(COURSE, root)
    return root


@pytest.fixture
def instructors_lab(course: Path, tmp_path: Path) -> Iterator[JupyterLab]:
    """Run JupyterLab as the README says: in nbgrader's folder, on the whole course."""
    quiet = {"apputils-extension/notification": {"fetchNews": "false"}}
    command = [sys.executable, "-m", "jupyterlab", "--notebook-dir=.."]
    with jupyterlab(command, course / "autograder", tmp_path, quiet) as server:
        yield server


def hand_in_class(course: Path, lesson: Lesson) -> None:
    """Submit for three students. Bruno's first explanation tries to run scripts in its reader's browser."""
    submitted = course / "autograder" / "submitted"
    for submission in hand_in(course, lesson):
        if submission.student not in STUDENTS:
            shutil.rmtree(submitted / submission.student)
    path = submitted / "bruno" / lesson.name / f"{lesson.name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    next(cell for cell in notebook.cells if cell.id == lesson.explanations[0].name).source = ANSWER
    nbformat.write(notebook, path)


def test_an_instructor_grades_in_formgrader(instructors_lab: JupyterLab, page: Page, course: Path) -> None:
    lesson = example_lesson(load_curriculum(course))
    automatic = sum(entry.points for entry in lesson.checked.values())
    max_points = sum(lesson.points.values())
    mistake = partial_mistake(lesson)
    cost = mistake.exercise.deductions[mistake.misconception.name]
    said_by_scripts: list[str] = []
    page.on("console", lambda message: said_by_scripts.append(message.text))
    page.set_viewport_size({"width": 1700, "height": 1100})
    page.goto(instructors_lab.url("lab"))
    formgrader = FormgraderPage.in_jupyterlab(page)
    for known in load_curriculum(course).lessons:
        expect(formgrader.row(known.name)).to_contain_text("draft")
    shoot(page, "formgrader-1-assignments")

    # Release one lesson. Three students hand it in.
    said = formgrader.press(formgrader.row(lesson.name), "assign")
    assert "Successfully created the student version" in said
    shoot(page, "formgrader-2-released")
    formgrader.row(lesson.name).locator(".preview a").click()
    expect(page.locator(".jp-DirListing-content", has_text=f"{lesson.name}.ipynb")).to_be_visible()
    hand_in_class(course, lesson)

    # Autograde one submission with the button, and all others on the command line.
    formgrader.submissions(lesson.name)
    for student in STUDENTS:
        expect(formgrader.row(student)).to_contain_text("needs autograding")
    shoot(page, "formgrader-3-submissions")
    said = formgrader.press(formgrader.row("amara"), "autograde")
    assert f"Successfully autograded '{lesson.name}' for student 'amara'." in said
    expect(formgrader.row("amara")).to_contain_text("needs manual grading")
    expect(formgrader.row("amara")).to_contain_text(f"{automatic:g} / {max_points:g}")
    # Formgrader suggests this command, because it has no button for a whole class.
    nbgrader(course / "autograder", "autograde", lesson.name)
    formgrader.submissions(lesson.name)
    expect(formgrader.row("bruno")).to_contain_text(f"{automatic - cost:g} / {max_points:g}")
    expect(formgrader.row("chiyo")).to_contain_text(f"0 / {max_points:g}")
    shoot(page, "formgrader-4-autograded")

    # Read one submission: the verdicts, the answer, and the mark scheme below it.
    formgrader.read(lesson.name, "bruno")
    check = formgrader.graded_cell(f"check_{mistake.exercise.name}")
    expect(check.locator("input.score")).to_have_attribute(
        "placeholder", f"{mistake.exercise.points - cost:g}"
    )
    output = formgrader.frame.locator(".output", has_text=mistake.misconception.statement)
    expect(output).to_contain_text(f"✗ {mistake.exercise.name}: {mistake.misconception.statement}")
    output.scroll_into_view_if_needed()
    shoot(page, "formgrader-5-verdict")

    # Enter points and a comment.
    explanation = lesson.explanations[0]
    answer = formgrader.graded_cell(explanation.name)
    answer.scroll_into_view_if_needed()
    expect(answer).to_contain_text("The variances add up.")
    below = answer.locator("xpath=ancestor::div[contains(@class, 'text_cell ')]/following-sibling::div[1]")
    expect(below).to_contain_text("Model answer and mark scheme, for graders only")
    expect(answer.locator("input.score")).to_have_class("score tabbable needs_manual_grade")
    for entry in lesson.explanations:
        cell = formgrader.graded_cell(entry.name)
        formgrader.give(cell, "1", COMMENT)
        expect(cell.locator("input.score")).to_have_class("score tabbable")
    answer.scroll_into_view_if_needed()
    shoot(page, "formgrader-6-graded-by-hand")

    # The feedback contains the points and the comment.
    by_hand = len(lesson.explanations)
    score = automatic - cost + by_hand
    formgrader.submissions(lesson.name)
    expect(formgrader.row("bruno").locator(".status")).to_have_text("graded")
    expect(formgrader.row("bruno")).to_contain_text(f"{score:g} / {max_points:g}")
    assert "Successfully generated feedback" in formgrader.press(formgrader.row("bruno"), "generate-feedback")
    shoot(page, "formgrader-7-feedback-generated")
    page.goto(instructors_lab.url(f"files/autograder/feedback/bruno/{lesson.name}/{lesson.name}.html"))
    expect(page.get_by_role("heading", name=f"{lesson.name} (Score:")).to_contain_text(
        f"{score:.1f} / {max_points:.1f}"
    )
    expect(page.get_by_text("Nearly: say how fast they grow.")).to_have_count(by_hand)
    expect(page.get_by_text("for graders only")).to_have_count(0)
    shoot(page, "formgrader-8-feedback")
    verdict = page.locator(
        ".output", has_text=f"✗ {mistake.exercise.name}: {mistake.misconception.statement}"
    )
    verdict.scroll_into_view_if_needed()
    shoot(page, "formgrader-9-verdict-in-feedback")

    assert RAN not in said_by_scripts
    with Gradebook(f"sqlite:///{course}/autograder/gradebook.db") as gradebook:
        notebook = gradebook.find_submission_notebook(lesson.name, lesson.name, "bruno")
        grades = {grade.name: grade for grade in notebook.grades}
        comments = {comment.name: comment.comment for comment in notebook.comments}
        assert notebook.score == score
        assert not notebook.needs_manual_grade
    for entry in lesson.explanations:
        assert (grades[entry.name].auto_score, grades[entry.name].manual_score) == (None, 1)
        assert comments[entry.name] == COMMENT
