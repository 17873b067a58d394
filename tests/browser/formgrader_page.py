"""Formgrader as an instructor sees it, in JupyterLab or on its own page."""

from playwright.sync_api import FrameLocator, Locator, Page, expect


class FormgraderPage:
    """The actions of an instructor in Formgrader.

    `frame` is the part of the window that shows Formgrader: the page itself, or a frame in JupyterLab.
    """

    def __init__(self, page: Page, frame: Page | FrameLocator) -> None:
        self.page = page
        self.frame = frame
        self._wait_for("Manage Assignments")

    @classmethod
    def in_jupyterlab(cls, page: Page) -> "FormgraderPage":
        """Open Formgrader from JupyterLab's menu."""
        page.get_by_role("menuitem", name="Nbgrader").first.click()
        page.locator(".lm-Menu-itemLabel").get_by_text("Formgrader", exact=True).click()
        return cls(page, page.frame_locator(".jp-MainAreaWidget:not(.lm-mod-hidden) iframe"))

    def row(self, text: str) -> Locator:
        """Return the row of the table that contains a name."""
        return self.frame.locator("#main-table tr").filter(has=self.frame.get_by_text(text, exact=True))

    def open(self, place: str) -> None:
        """Open an entry of the menu on the left. A submission's page has no menu, so leave it first."""
        if self.frame.locator(".nav-stacked").count() == 0:
            self.frame.locator(".breadcrumb").get_by_role("link", name="Manual Grading").click()
            self._wait_for("Manual Grading")
        self.frame.locator(".nav-stacked").get_by_role("link", name=place).click()
        self._wait_for(place)

    def submissions(self, assignment: str) -> None:
        """Open the list of students who have submitted."""
        self.open("Manage Assignments")
        self.row(assignment).locator(".num-submissions a").click()
        self._wait_for("Manage Submissions")

    def press(self, row: Locator, button: str) -> str:
        """Press a button in a row, and return the text of the dialog that reports the result."""
        row.locator(f".{button} a").click()
        window = self.frame.locator(".modal.in .modal-content")
        expect(window).to_be_visible()
        said = window.locator(".modal-body").inner_text()
        assert window.locator(".modal-title").inner_text() == "Success", said
        window.locator(".modal-footer button").click()
        expect(self.frame.locator(".modal, .modal-backdrop")).to_have_count(0)
        return said

    def read(self, assignment: str, student: str) -> None:
        """Open a student's submission for manual grading."""
        self.open("Manual Grading")
        self.row(assignment).get_by_role("link", name=assignment).click()
        self.row(assignment).get_by_role("link", name=assignment).click()  # the assignment's only notebook
        expect(self.frame.get_by_role("link", name="Submission #1")).to_be_visible()
        self.frame.get_by_role("button", name="Show All Names").click()
        self.frame.get_by_role("link", name=student, exact=True).click()
        expect(self.frame.locator(".panel-title", has_text=assignment)).to_be_visible()

    def graded_cell(self, name: str) -> Locator:
        """Return the cell of the open submission that contains the score field for this grade_id."""
        return self.frame.locator(".nbgrader_cell", has=self.frame.locator(f"input[id='{name}']"))

    def give(self, cell: Locator, points: str, comment: str) -> None:
        """Enter points and a comment for a cell, and wait until both are saved."""
        for field, typed in (
            (cell.locator("input.score"), points),
            (cell.locator("textarea.comment"), comment),
        ):
            with self.page.expect_response(lambda answer: answer.request.method == "PUT") as saved:
                field.fill(typed)
                field.press("Tab")
            assert saved.value.ok

    def _wait_for(self, title: str) -> None:
        expect(self.frame.locator("h1").nth(1)).to_have_text(title)
        expect(self.frame.get_by_text("Loading, please wait...")).to_have_count(0)
