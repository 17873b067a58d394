"""Lesson 01 in JupyterLab: run it, see the charts, make a mistake, read the verdict, correct it, validate."""

from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Page, expect

from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.exercises.registry import catalogue
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import shoot

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
NAME = "01-attention/01-attention.ipynb"


def solved_by_a_student(slip: str) -> nbformat.NotebookNode:
    """Return the released notebook with all cells filled in, and one mistake in the scores."""
    released = nbformat.read(ROOT / "lessons" / NAME, as_version=4)
    solved = {cell.id: cell for cell in nbformat.read(ROOT / "solutions" / NAME, as_version=4).cells}
    for cell in released.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = solved[cell.id].source
            if cell.id == "attention_scores":
                cell.source = slip
    return released


def test_a_student_does_lesson_01(lab: str, page: Page, folder: Path) -> None:
    exercise = catalogue()["attention_scores"]
    assert isinstance(exercise, ExerciseCheck)
    not_scaled = next(mistake for mistake in exercise.misconceptions if mistake.name == "not_scaled")
    (folder / NAME).parent.mkdir()
    nbformat.write(solved_by_a_student(exercise.source_with(not_scaled)), folder / NAME)
    page.goto(lab.format(NAME))
    notebook = NotebookPage(page)

    notebook.run_all()
    check = notebook.cell('check( "attention_scores"')
    expect(check).to_contain_text(
        "✗ attention_scores: the dot products are not divided by the square root of d."
    )
    expect(check).to_contain_text("Why: If all components are independent")
    expect(check).not_to_contain_text("Traceback")
    check.scroll_into_view_if_needed()
    shoot(page, "01-slip")

    notebook.rewrite(notebook.cell("def attention_scores"), exercise.source)
    notebook.run_all()
    expect(check).to_contain_text("✓ attention_scores: correct")
    for name in ("attention_weights", "scaled_dot_product_attention"):
        expect(notebook.cell(f'check( "{name}"')).to_contain_text(f"✓ {name}: correct")
    expect(notebook.charts()).to_have_count(9)
    for number in range(9):
        chart = notebook.charts().nth(number)
        chart.scroll_into_view_if_needed()
        assert chart.evaluate("node => node.tagName") == "CANVAS"  # see course_lib.charts.theme
        box = chart.bounding_box()
        assert box is not None
        assert box["width"] > 200
        assert box["height"] > 100
        shoot(page, f"01-chart-{number}")

    assert "Success" in notebook.validate()
    shoot(page, "01-validated")
