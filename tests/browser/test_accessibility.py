"""The site, feedback, both reports and marking follow WCAG 2.1 AA, on a laptop and on a phone in dark mode.

The start page is tested in `test_start_page.py`, where JupyterLab is running.
"""

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader.converters import GenerateFeedback
from playwright.sync_api import Page
from traitlets.config import PyFileConfigLoader

from autograder.marking.server import MarkingServer
from autograder.release.build import COURSE
from autograder.release.concept_test import load
from autograder.reports.learning.figures import figures
from autograder.reports.learning.page import learning_page
from autograder.reports.learning.records import LearningRecords, Run
from course_lib.charts import found_beside_expected
from course_lib.charts.theme import as_svg
from tests.autograder.marking.marked_class import MarkedClass
from tests.autograder.marking.marked_class import served as marking_served
from tests.autograder.reports.graded_class import NOT_SCALED, RIGHT, GradedClass, about, empty_course
from tests.browser.accessibility import overflow, violations
from tests.browser.screenshots import shoot
from tests.browser.web_server import served
from tests.site import Site, built_site

pytestmark = pytest.mark.browser

CONFIG = Path(__file__).parents[2] / "autograder"
LESSON = "01-first"
SITE_PAGES = (
    "index",
    "students",
    "faq",
    "instructor-guide",
    "benchmarks",
    "reference",
    "lessons/01-attention",
)
LOOKS = [(1280, "light"), (390, "dark")]

TEXT = "See [the paper](https://arxiv.org/abs/1706.03762), $x$ and `code`.\n\n| a | b |\n|--|--|\n| 1 | 2 |"
LONG = "x = 1  # " + 30 * "a comment wider than a phone "


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GradedClass]:
    """A class with every kind of content that a graded notebook can show."""
    course = empty_course(tmp_path_factory)
    course.release(LESSON)
    for name in ("scores", "guess", "explain", "more"):
        course.gradebook.add_solution_cell(name, LESSON, LESSON)
    full = {"check_scores": 4.0, "check_guess": 1.0, "explain": None}
    some = {"check_scores": 2.0, "check_guess": 0.0, "explain": 0.0}
    course.hand_in("ann", LESSON, full, {"scores": RIGHT, "guess": RIGHT}, -1)
    path = course.hand_in("ben", LESSON, some, {"scores": NOT_SCALED, "guess": RIGHT}, repairs=["one cell"])
    notebook = nbformat.read(path, as_version=4)
    svg = as_svg(found_beside_expected(torch.zeros(3, 4), torch.ones(3, 4), torch.ones(3, 4)))
    notebook.cells[1].outputs.append(new_output("display_data", data={"image/svg+xml": svg}))
    failed = new_output(
        "error", ename="ValueError", evalue="no", traceback=["\x1b[31mValueError\x1b[39m: no"]
    )
    printed = new_output("stream", text=LONG)
    notebook.cells.insert(0, new_markdown_cell(TEXT))
    notebook.cells.append(
        new_code_cell(LONG, metadata=about("more", solution=True), outputs=[printed, failed])
    )
    nbformat.write(notebook, path)
    yield course
    course.gradebook.close()


def assert_accessible(page: Page, address: str, name: str) -> None:
    for width, scheme in LOOKS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(address)
        shoot(page, f"{name}-{width}-{scheme}")
        assert violations(page) == "", f"{name} at {width} pixels"
        assert overflow(page) <= 0, f"{name} is wider than {width} pixels"


def test_feedback(graded: GradedClass, page: Page) -> None:
    config = PyFileConfigLoader("nbgrader_config.py", path=str(CONFIG)).load_config()
    graded.course.assignment_id = LESSON
    graded.course.feedback_directory = "feedback"
    graded.course.db_url = f"sqlite:///{graded.root}/gradebook.db"
    GenerateFeedback(coursedir=graded.course, config=config).start()
    with served(graded.root / "feedback" / "ben" / LESSON) as address:
        assert_accessible(page, f"{address}/{LESSON}.html", "feedback")


def test_class_report(graded: GradedClass, page: Page) -> None:
    graded.report()
    with served(graded.root / "out") as address:
        assert_accessible(page, f"{address}/report.html", "class-report")


def test_learning_report(tmp_path: Path, page: Page) -> None:
    test = load(COURSE)
    right = {question.name: "correct" for question in test.questions}
    answers = {
        "pre": {f"s{n}": dict.fromkeys(right, "") for n in range(12)},
        "post": {f"s{n}": right for n in range(12)},
    }
    graded = [Run("s0", "01-attention", "attention_scores", "wrong", ("not_scaled",))]
    records = LearningRecords(answers, graded, graded, ["s0: not counted"])
    html = learning_page(test, records, figures(test, records), "a-course").replace(
        "<details>", "<details open>"
    )
    (tmp_path / "learning.html").write_text(html, encoding="utf-8")
    with served(tmp_path) as address:
        assert_accessible(page, f"{address}/learning.html", "learning-report")


def test_marking_page(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, page: Page) -> None:
    """Check `course mark`, including with the comment bank open."""
    marked = MarkedClass.make(tmp_path / "course", tmp_path_factory)
    marked.hand_in(
        {"anna": "Variances add up.", "bela": "The variances add up.", "cleo": "The softmax is saturated."}
    )
    with marking_served(MarkingServer(marked.answers(), marked.bank())) as address:
        page.goto(address)
        page.locator(".card").nth(2).wait_for()
        assert_accessible(page, page.url, "marking")
        page.locator(".card").first.wait_for()
        page.keyboard.press("b")
        page.keyboard.type("variances")
        shoot(page, "marking-bank")
        assert violations(page) == "", "with the comment bank open"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The documentation site, built without executing the lessons."""
    return built_site(tmp_path_factory)


@pytest.mark.nightly
def test_site(site: Site, page: Page) -> None:
    with served(site.folder) as address:
        for name in SITE_PAGES:
            assert_accessible(page, f"{address}/{name}.html", name.replace("/", "-"))


def test_a_bad_page_is_found(page: Page) -> None:
    page.set_content('<body style="width: 3000px"><img src="x"><p style="color: #aaa">pale</p></body>')
    assert {line.split(":")[0] for line in violations(page).split("\n") if ":" in line[:20]} >= {
        "color-contrast",
        "image-alt",
    }
    assert overflow(page) > 1000
