"""Nothing in a submission runs in a browser: in feedback, in Formgrader, or in the class report."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from nbconvert.exporters import HTMLExporter
from nbgrader.api import Gradebook
from playwright.sync_api import Page

from autograder.nbgrader.course_folder import CourseFolder
from autograder.nbgrader.generate_assignment import CourseGenerateAssignment
from autograder.nbgrader.generate_feedback import CourseGenerateFeedback
from autograder.reports.class_report import ClassReport
from tests.autograder.small_course import LESSON, SmallCourse
from tests.browser.hostile_notebook import ATTACKER, in_html, made_hostile
from tests.browser.jupyterlab import jupyterlab
from tests.browser.web_server import served

pytestmark = pytest.mark.browser

STUDENT = "<img src=x onerror=document.title='RUN-id'>"


@dataclass
class Watched:
    """A page, with the dialogs and requests that it caused."""

    page: Page
    dialogs: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, url: str) -> None:
        """Open a page, click its `javascript:` and `data:` links, and wait a moment for the effects."""
        self.page.goto(url, wait_until="load")
        for link in self.page.locator("#notebook a, main a").all():
            if (link.get_attribute("href") or "#").lower().startswith(("javascript:", "data:")):
                link.click(no_wait_after=True)
        self.page.wait_for_timeout(500)

    @property
    def ran(self) -> list[str]:
        """The scripts that ran and the remote files that were requested."""
        found: list[str] = self.page.evaluate("window.ran || []")
        title = [self.page.title()] if self.page.title().startswith("RUN") else []
        asked = [url.removeprefix(ATTACKER) for url in self.requests if url.startswith(ATTACKER)]
        return [*found, *title, *asked, *self.dialogs]


def open_gradebook(course: SmallCourse) -> Gradebook:
    return Gradebook(f"sqlite:///{course.root}/autograder/gradebook.db", "build-the-transformer")


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> SmallCourse:
    """A small course whose gradebook contains a hostile submission."""
    small = SmallCourse.make(tmp_path_factory.mktemp("hostile") / "course")
    folder = CourseFolder(small.root)
    CourseGenerateAssignment(coursedir=folder.directory(LESSON), config=folder.config).start()
    notebook = small.released()
    with open_gradebook(small) as gradebook:
        gradebook.add_student(STUDENT, first_name=in_html("first"), last_name=in_html("last"))
        gradebook.add_submission(LESSON, STUDENT)
        for grade in gradebook.find_submission_notebook(LESSON, LESSON, STUDENT).grades:
            grade.auto_score = 1.0
        gradebook.db.commit()
    autograded = small.root / "autograder" / "autograded" / STUDENT / LESSON
    autograded.mkdir(parents=True)
    text = made_hostile(notebook, "explain_root", "check_attention_scores")
    (autograded / f"{LESSON}.ipynb").write_text(text, encoding="utf-8")
    CourseGenerateFeedback(coursedir=folder.directory(LESSON), config=folder.config).start()
    [made] = (small.root / "autograder" / "feedback").rglob("*.html")
    (small.root / "page.html").write_bytes(made.read_bytes())  # a path that can be used in a URL
    return small


def test_the_attacks_run_where_nothing_stops_them(course: SmallCourse, page: Page, tmp_path: Path) -> None:
    [notebook] = (course.root / "autograder" / "autograded").rglob("*.ipynb")
    html, _ = HTMLExporter(template_name="classic").from_filename(str(notebook))
    (tmp_path / "plain.html").write_text(html, encoding="utf-8")
    watched = Watched(page)
    with served(tmp_path) as address:
        watched.open(f"{address}/plain.html")
    assert {"/html", "/answer", "/width", "/markdown-output", "/html.css", "/filename.png"} <= set(
        watched.ran
    )


def test_nothing_runs_in_feedback(course: SmallCourse, page: Page) -> None:
    watched = Watched(page)
    with served(course.root) as address:
        watched.open(f"{address}/page.html")
    assert watched.ran == []
    assert page.get_by_text("attention_scores").count()


def test_nothing_runs_in_feedback_where_the_browser_knows_no_policy(course: SmallCourse, page: Page) -> None:
    made = (course.root / "page.html").read_text(encoding="utf-8")
    assert made.count("Content-Security-Policy") == 1
    without = made.replace("Content-Security-Policy", "none")
    (course.root / "without.html").write_text(without, encoding="utf-8")
    watched = Watched(page)
    with served(course.root) as address:
        watched.open(f"{address}/without.html")
    assert watched.ran == []


def test_nothing_runs_in_the_class_report(course: SmallCourse, page: Page) -> None:
    report = ClassReport(config=CourseFolder(course.root).config)
    report.to = str(course.root / "report.html")
    with open_gradebook(course) as gradebook:
        report.export(gradebook)
    watched = Watched(page)
    with served(course.root) as address:
        watched.open(f"{address}/report.html")
    assert watched.ran == []
    assert page.get_by_text("<script>document.title='RUN-first'").count()


@pytest.fixture
def formgrader(course: SmallCourse, tmp_path: Path) -> Iterator[str]:
    """The address of Formgrader's page for the submission."""
    with open_gradebook(course) as gradebook:
        id = gradebook.find_submission_notebook(LESSON, LESSON, STUDENT).id
    command = [sys.executable, "-m", "jupyterlab", "--notebook-dir=.."]
    with jupyterlab(command, course.root / "autograder", tmp_path, {}) as server:
        yield server.url(f"formgrader/submissions/{id}/")


def test_nothing_runs_in_formgrader(formgrader: str, page: Page) -> None:
    watched = Watched(page)
    watched.open(formgrader)
    assert watched.ran == []
    # The submission doesn't interfere with the fields of the form either.
    for name in ("explain_root", "check_attention_scores"):
        [field] = page.locator(f"[id='{name}']").all()
        assert field.get_attribute("class").split()[0] == "score"
