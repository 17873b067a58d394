"""A lesson on a JupyterHub: fetched, solved, submitted, graded in Formgrader's service, returned and read."""

import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from autograder.demo import copy_course
from autograder.release.build import COURSE
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.exercises.registry import catalogue
from course_lib.student.configuration import COURSE_ID, write_configuration
from tests.autograder.nbgrader.unix_accounts import Account, accounts, give_home, why_unavailable
from tests.browser import jupyterhub
from tests.browser.formgrader_page import FormgraderPage
from tests.browser.notebook_page import NotebookPage
from tests.browser.screenshots import shoot

LESSON = "00-orientation"
EXERCISE = "pairwise_differences"
PASSWORD = "a password for one test"
ANSWER = "It compares the results of my function with those of a reference, on inputs that it draws."
COMMENT = "Say also how it compares them."

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.sandbox,
    pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable())),
]


@dataclass(frozen=True)
class Hub:
    """A running JupyterHub, and the people with an account on its machine."""

    address: str
    folder: Path
    grader: Account
    instructor: Account
    students: list[Account]

    def home(self, account: Account) -> Path:
        """Return the home folder of an account."""
        return self.folder / "home" / account.name

    def log_in(self, browser: Browser, account: Account, then: str) -> Page:
        """Open a page of the hub in a new window, and log in."""
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        page.route(lambda address: "127.0.0.1" not in address, lambda route: route.abort())
        page.set_default_timeout(120_000)
        page.goto(f"{self.address}{then}")
        page.get_by_label("Username").fill(account.name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        return page


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A JupyterHub set up as docs/jupyterhub.md describes, before any lesson is released."""
    if jupyterhub.proxy() is None:
        pytest.skip(
            "JupyterHub's proxy is missing: npm install --global --prefix .venv configurable-http-proxy"
        )
    with (
        tempfile.TemporaryDirectory(prefix="hub-") as name,
        accounts("grader", "instructor", "ann", "ben") as (grader, *people),
    ):
        folder = Path(name)
        folder.chmod(0o755)
        course = folder / "course"
        copy_course(COURSE, course)
        course.chmod(0o700)
        exchange = folder / "exchange"
        exchange.mkdir()
        exchange.chmod(0o777)
        for path in (exchange, course, *course.rglob("*")):
            os.chown(path, grader.uid, grader.group)
        (course / ".venv").symlink_to(sys.prefix)
        write_configuration(folder / "jupyter", exchange)
        # For the test: expose `window.jupyterapp`, and render all cells (see `_show_all_cells`).
        (folder / "jupyter" / "jupyter_lab_config.py").write_text(
            "get_config().LabApp.expose_app_in_browser = True\n"
        )
        give_home(grader, folder / "home" / grader.name)
        for account in people:
            give_home(account, folder / "home" / account.name, PASSWORD)
            settings = folder / "home" / account.name / ".jupyter/lab/user-settings/@jupyterlab"
            account.call(lambda settings=settings: _show_all_cells(settings))
        (folder / "hub").mkdir(mode=0o700)
        text, address = jupyterhub.configuration(
            {"GRADER": grader.name, "COURSE_FOLDER": course, "PEOPLE_WHO_GRADE": [people[0].name]},
            {"JUPYTER_CONFIG_PATH": str(folder / "jupyter"), "OMP_NUM_THREADS": "1"},
        )
        with jupyterhub.jupyterhub(folder / "hub", text, address) as log:
            try:
                yield Hub(address, folder, grader, people[0], people[1:])
            finally:
                print(log.read_text(encoding="utf-8"))


def _show_all_cells(settings: Path) -> None:
    path = settings / "notebook-extension" / "tracker.jupyterlab-settings"
    path.parent.mkdir(parents=True)
    path.write_text('{"windowingMode": "none"}')


class AssignmentList:
    """nbgrader's Assignment List in JupyterLab."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.get_by_role("menuitem", name="Nbgrader").first.click()
        page.locator(".lm-Menu-itemLabel").get_by_text("Assignment List", exact=True).click()

    def press(self, state: str, button: str) -> None:
        """Press the lesson's button in one of the lists: released, fetched or submitted."""
        item = self.page.locator(f"#{state}_assignments_list > .list_item", has_text=LESSON)
        item.get_by_role("button", name=button).click()

    def expect(self, state: str, text: str) -> None:
        """Wait until a list contains this text."""
        expect(self.page.locator(f"#{state}_assignments_list")).to_contain_text(text)


def test_a_lesson_on_a_hub(hub: Hub, page: Page) -> None:
    browser = page.context.browser
    assert browser is not None
    ann, ben = hub.students
    exercise = catalogue()[EXERCISE]
    assert isinstance(exercise, ExerciseCheck)

    # The instructor releases the lesson in Formgrader, which the menu of the hub's pages lists as a service.
    graders_page = hub.log_in(browser, hub.instructor, "/hub/home")
    graders_page.get_by_text("Services", exact=True).click()
    shoot(graders_page, "hub-1-home")
    graders_page.get_by_role("link", name=COURSE_ID).click()
    formgrader = FormgraderPage(graders_page, graders_page)
    shoot(graders_page, "hub-2-formgrader")
    formgrader.press(formgrader.row(LESSON), "assign")
    assert "Successfully released" in formgrader.press(formgrader.row(LESSON), "release")

    # Ann fetches the lesson in JupyterLab, solves the exercise, validates and submits.
    anns_page = hub.log_in(browser, ann, "/")
    expect(anns_page.locator(".jp-MarkdownViewer")).to_contain_text("You have no lessons yet")
    shoot(anns_page, "hub-3-start")
    lessons = AssignmentList(anns_page)
    lessons.press("released", "fetch")
    lessons.expect("fetched", LESSON)
    shoot(anns_page, "hub-4-fetched")
    anns_page.evaluate(
        "path => window.jupyterapp.commands.execute('docmanager:open', {path})",
        f"{COURSE_ID}/{LESSON}/{LESSON}.ipynb",
    )
    notebook = NotebookPage(anns_page)
    notebook.rewrite(notebook.cell("predict_broadcast = None"), "predict_broadcast = 12")
    notebook.rewrite(notebook.cell("predict_silent = None"), "predict_silent = 4 / 3")
    notebook.rewrite(notebook.cell(f"def {EXERCISE}"), exercise.source)
    answer = anns_page.locator(".jp-MarkdownCell", has_text="Your answer here.")
    answer.dblclick()
    notebook.rewrite(answer, ANSWER)
    assert "Success" in notebook.validate()
    anns_page.locator(".jp-Dialog button").click()
    shoot(anns_page, "hub-5-validated")
    lessons = AssignmentList(anns_page)
    lessons.press("fetched", "Submit")
    lessons.expect("submitted", LESSON)
    shoot(anns_page, "hub-6-submitted")

    # Ben types nbgrader's commands in a terminal, and hands in the lesson unchanged.
    bens_page = hub.log_in(browser, ben, "/")
    expect(bens_page.locator(".jp-MarkdownViewer")).to_be_visible()
    bens_page.evaluate("() => window.jupyterapp.commands.execute('terminal:create-new')")
    bens_page.locator(".jp-Terminal .xterm-helper-textarea").focus()
    commands = f"cd; nbgrader fetch_assignment {LESSON} && nbgrader submit {LESSON}; echo $? > ended"
    bens_page.keyboard.type(commands)
    bens_page.keyboard.press("Enter")
    assert _text_of(hub.home(ben) / "ended", bens_page) == "0\n"
    shoot(bens_page, "hub-7-terminal")

    # The instructor collects both submissions, and autogrades them in the sandbox.
    graders_page.reload()
    assert "Successfully collected" in formgrader.press(formgrader.row(LESSON), "collect")
    formgrader.submissions(LESSON)
    for student in (ann, ben):
        assert "Successfully autograded" in formgrader.press(formgrader.row(student.name), "autograde")
    expect(formgrader.row(ann.name)).to_contain_text("needs manual grading")
    expect(formgrader.row(ann.name)).to_contain_text("5 / 7")
    expect(formgrader.row(ben.name)).to_contain_text("0 / 7")
    shoot(graders_page, "hub-8-autograded")

    # The instructor marks Ann's explanation, and returns feedback.
    formgrader.read(LESSON, ann.name)
    answer = formgrader.graded_cell("explain_check")
    # Wait until Formgrader has loaded the scores, because it saves only what is typed after that.
    expect(answer.locator("input.score")).to_have_class("score tabbable needs_manual_grade")
    formgrader.give(answer, "1.5", COMMENT)
    shoot(graders_page, "hub-9-marked")
    formgrader.submissions(LESSON)
    expect(formgrader.row(ann.name)).to_contain_text("6.5 / 7")
    row = formgrader.row(ann.name)
    assert "Successfully generated feedback" in formgrader.press(row, "generate-feedback")
    assert "Successfully released feedback" in formgrader.press(row, "release-feedback")

    # Ann fetches and reads the feedback.
    lessons = AssignmentList(anns_page)
    lessons.press("submitted", "Fetch Feedback")
    anns_page.get_by_text("(view feedback)").click()
    anns_page.locator(".jp-DirListing-item", has_text=f"{LESSON}.html").dblclick()
    feedback = anns_page.frame_locator(".jp-HTMLViewer iframe")
    expect(feedback.get_by_text(COMMENT)).to_be_visible()
    expect(feedback.locator("body")).to_contain_text("6.5 / 7")
    shoot(anns_page, "hub-10-feedback")


def _text_of(path: Path, page: Page) -> str:
    """Wait until a command has written its exit code, and return it."""
    for _ in range(240):
        if path.exists() and (text := path.read_text(encoding="utf-8")):
            return text
        page.wait_for_timeout(500)
    raise AssertionError(f"{path} was not written")
