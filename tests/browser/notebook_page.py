"""A notebook as a student sees it in JupyterLab."""

from playwright.sync_api import Locator, Page, expect


class NotebookPage:
    """The actions of a student in a notebook."""

    def __init__(self, page: Page) -> None:
        self.page = page
        expect(page.locator(".jp-NotebookPanel .jp-Cell").first).to_be_visible()
        self._wait_until_idle()

    def cell(self, text: str) -> Locator:
        """Return the code cell whose input contains this text."""
        typed = self.page.locator(".jp-InputArea", has_text=text)
        return self.page.locator(".jp-CodeCell", has=typed).first

    def run_all(self) -> None:
        """Restart the kernel, run all cells, and wait until they have finished."""
        # Don't await the command, because it waits for the dialog that is answered below.
        self.page.evaluate(
            """() => {
                window.hasRun = false;
                const command = window.jupyterapp.commands.execute('notebook:restart-run-all');
                command.then(() => { window.hasRun = true; });
            }"""
        )
        self.page.locator(".jp-Dialog button", has_text="Restart").click()
        self.page.wait_for_function("window.hasRun", timeout=180_000)

    def rewrite(self, cell: Locator, source: str) -> None:
        """Replace the text of a cell, using the keyboard."""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.press("Delete")
        self.page.keyboard.insert_text(source)

    def save(self) -> None:
        """Save the notebook, as Ctrl+S does."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")

    def validate(self) -> str:
        """Press nbgrader's Validate, which saves first, and return the text of its dialog."""
        self.page.get_by_role("button", name="Validate").first.click()
        window = self.page.locator(".jp-Dialog")
        expect(window).to_contain_text("Success", timeout=180_000)
        return window.inner_text()

    def charts(self) -> Locator:
        """Return the charts drawn on the page."""
        return self.page.locator(".vega-embed canvas, .vega-embed svg.marks")

    def _wait_until_idle(self) -> None:
        self.page.wait_for_function(
            """() => {
                const panel = window.jupyterapp.shell.currentWidget;
                const kernel = panel?.sessionContext?.session?.kernel;
                const waiting = document.querySelectorAll('.jp-InputPrompt');
                const running = [...waiting].some(prompt => prompt.textContent.includes('*'));
                return kernel && kernel.status === 'idle' && !running;
            }""",
            timeout=180_000,
        )
