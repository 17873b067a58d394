"""JupyterLab's start page: it lists and opens lessons, and shows the student's progress."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from course_lib.student.progress.start_page import PAGE, write_page
from tests.browser.accessibility import violations
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import shoot

pytestmark = pytest.mark.browser

LESSONS = Path(__file__).parents[2] / "lessons"
NAME, TITLE = "01-attention", "01 Scaled dot-product attention"


def test_start_page(lab: str, page: Page, folder: Path) -> None:
    shutil.copytree(LESSONS / NAME, folder / NAME)
    write_page(folder)
    page.goto(lab.format(PAGE))
    shown = page.locator(".jp-MarkdownViewer")
    expect(shown.locator("tr", has_text=TITLE)).to_contain_text("not started")
    shoot(page, "start-page")
    assert violations(page, within=".jp-MarkdownViewer") == ""  # the rest of the window is JupyterLab's own

    shown.get_by_role("link", name=TITLE).click()
    notebook = NotebookPage(page)
    notebook.rewrite(notebook.cell("predict_spread = None"), "predict_spread = 32")
    notebook.run_all()  # stops at the first exercise, because it is unsolved
    expect(notebook.cell('check( "predict_spread"')).to_contain_text("✓ predict_spread: correct")
    notebook.save()
    assert "1 of 5 checks pass" in (folder / PAGE).read_text(encoding="utf-8")

    # The page is still open in another tab, and shows the new state without being opened again.
    page.locator(".lm-TabBar-tab", has_text=PAGE).first.click()
    expect(shown.locator("tr", has_text=TITLE)).to_contain_text("1 of 5 checks pass")
    shoot(page, "start-page-updated")
