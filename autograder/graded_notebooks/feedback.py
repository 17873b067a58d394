"""Feedback: the parts of a graded notebook that students may see."""

import hashlib
import json
import os
import pickle
import re
import signal
import sys
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import nbconvert
import nbformat
from nbconvert.exporters import HTMLExporter
from nbconvert.exporters.exporter import Exporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearHiddenTests
from traitlets import List
from traitlets.config import Config

from autograder.graded_notebooks.points import STYLE, GradedCell, points_line, summary
from autograder.graded_notebooks.record import GradingRecord
from autograder.graded_notebooks.verdicts import is_check, verdicts_in
from autograder.submissions.repair import MARK_SCHEME
from course_lib import __version__

#: The name of the exception that a failed check raises. It is repeated here, because importing the class
#: would import torch.
CHECK_ERROR = "CheckError"

#: The number of lines shown from the start and the end of a student's traceback.
FIRST_LINES, LAST_LINES = 5, 20

#: The folders in the path of a Python file, possibly after an escape sequence for a colour.
_FOLDERS = re.compile(
    # The lengths are limited because a long line of slashes would otherwise take quadratic time.
    r"(\x1b\[[\d;]{0,20}m|(?<![\w./~]))(?:~|[A-Za-z]:)?[/\\]"
    r"(?:[^\s/\\:'\"\x1b<>]{1,255}[/\\]){1,40}(?=[^\s/\\:'\"\x1b<>]{1,255}\.pyx?\b)"
)

_SVG = "image/svg+xml"
_DESCRIPTION = re.compile(r'aria-label="([^"]*)"')

#: The page's Content-Security-Policy, `POLICY`, allows inline styles, embedded pictures, and MathJax, which
#: nbgrader's template uses for formulas. It blocks inline scripts.
_MATHJAX = "https://cdnjs.cloudflare.com/ajax/libs/mathjax/"
POLICY = (
    f"default-src 'none'; script-src {_MATHJAX} 'unsafe-eval'; style-src 'unsafe-inline'; "
    f"img-src data:; font-src {_MATHJAX}"
)


#: The name of the element that contains a page's digest. It is near the start of the page, so only the first
#: `_START_BYTES` bytes are searched.
_DIGEST = "course-digest"
_DIGEST_ELEMENT = re.compile(rf'<meta content="([0-9a-f]{{64}})" name="{_DIGEST}"/>'.encode())
_START_BYTES = 4096


@dataclass(frozen=True)
class PreparedPage:
    """The data from which a feedback page can be rendered without access to the gradebook."""

    notebook: str
    """The notebook with points and comments, as JSON."""
    resources: dict[str, Any]
    """The points of the whole notebook and the styles, as nbconvert's templates expect them."""
    digest: str
    """A hash of the notebook, of `resources`, and of the versions of the course and of nbconvert."""


class FeedbackExporter(HTMLExporter):
    """An exporter of nbgrader's feedback page, whose Content-Security-Policy blocks scripts from submissions.

    A page can be created in two steps: `prepare` runs the preprocessors, which read the gradebook. `render`
    takes ten times as long, and can run in another process.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.rendered: dict[str, Callable[[], str]] = {}
        """Functions that wait for a page if necessary and return it, keyed by the graded notebook's path."""

    @property
    def own_config(self) -> bytes:
        """The pickled part of the configuration that `render` needs."""
        names = {cls.__name__ for cls in type(self).__mro__}
        return pickle.dumps({name: section for name, section in self.config.items() if name in names})

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **more: Any
    ) -> tuple[str, dict[str, Any]]:
        """Return the page of a notebook from `rendered` if it is there. Otherwise, prepare and render it."""
        if filename in self.rendered:
            return self.rendered.pop(filename)(), self._init_resources(resources)
        page = self.prepare(filename, resources or {})
        return self.render(page), self._init_resources(resources)

    def prepare(self, filename: str, resources: dict[str, Any]) -> PreparedPage:
        """Read a graded notebook, run all preprocessors, and return the page for `render`."""
        notebook, resources = Exporter.from_notebook_node(self, nbformat.read(filename, 4), resources)
        names = {name: value for name, value in resources["nbgrader"].items() if name != "db_url"}
        shown = {"nbgrader": names, "inlining": resources.get("inlining", {})}
        content = json.dumps(notebook, sort_keys=True)
        versions = (__version__, nbconvert.__version__)
        digest = hashlib.sha256(json.dumps([content, shown, versions], sort_keys=True).encode()).hexdigest()
        return PreparedPage(content, shown, digest)

    def render(self, page: PreparedPage) -> str:
        """Return the HTML of a prepared page, including its digest."""
        notebook = nbformat.from_dict(json.loads(page.notebook))
        return self.from_notebook_node(notebook, {**page.resources, _DIGEST: page.digest})[0]

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **more: Any
    ) -> tuple[str, dict[str, Any]]:
        """Render the page, and insert the Content-Security-Policy and, for a prepared page, the digest."""
        page, resources = super().from_notebook_node(nb, resources, **more)
        head = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>'
        head += '\n<meta name="viewport" content="width=device-width"/>'
        if _DIGEST in resources:
            head += f'\n<meta content="{resources[_DIGEST]}" name="{_DIGEST}"/>'
        return page.replace("<html>", '<html lang="en">', 1).replace(
            "<head>", f"<head>\n{head}", 1
        ), resources

    def _preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Run the preprocessors, unless `prepare` has run them."""
        if _DIGEST in resources:
            return nb, resources
        prepared: tuple[NotebookNode, dict[str, Any]] = super()._preprocess(nb, resources)
        return prepared


def digest_in(page: Path) -> str | None:
    """Return the digest in a feedback page, or None if there is no page with a digest."""
    try:
        with page.open("rb") as file:
            found = _DIGEST_ELEMENT.search(file.read(_START_BYTES))
    except OSError:
        return None
    return found[1].decode() if found else None


def start_rendering(config: bytes) -> None:
    """Prepare a worker process for rendering pages with this pickled configuration.

    The worker ignores interrupts, because the main process handles them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _exporter(config)


def render(config: bytes, page: PreparedPage) -> str:
    """Render a page in a worker process, with a configuration from `FeedbackExporter.own_config`."""
    return _exporter(config).render(page)


@lru_cache(maxsize=1)
def _exporter(config: bytes) -> FeedbackExporter:
    """Return an exporter with this pickled configuration.

    The exporter is cached, because compiling its templates takes time.
    """
    return FeedbackExporter(config=Config(pickle.loads(config)))


class PrepareFeedback(ClearHiddenTests):
    """A variant of nbgrader's ClearHiddenTests for feedback, which also adds the points and their reasons.

    Plain nbgrader shows hidden tests twice in feedback: in the cell and in the traceback of its error. This
    variant also removes the mark schemes for graders and the paths of the grading machine.
    """

    # nbconvert passes this option to every preprocessor, and nbgrader would warn if it were not declared.
    display_data_priority = List([]).tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Prepare a notebook for feedback, and insert the points at the top and at each check."""
        nb.cells = [cell for cell in nb.cells if MARK_SCHEME not in cell.metadata.get("tags", [])]
        self._points = _points(nb, resources["nbgrader"])
        nb, resources = super().preprocess(nb, resources)
        given = resources["nbgrader"]
        table = summary(
            self._points.values(),
            given["score"],
            given["max_score"],
            given["late_penalty"],
            GradingRecord.of(nb).repairs,
        )
        nb.cells.insert(0, new_markdown_cell(table, id="course-summary"))
        resources.setdefault("inlining", {}).setdefault("css", []).append(STYLE)
        return nb, resources

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], cell_index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Prepare one cell for feedback.

        In a check cell, clean up the outputs, insert the points and remove the hidden tests. In any other
        cell, only remove the machine's paths and shorten tracebacks; markers of hidden tests are ignored.
        """
        if not is_check(cell):
            for output in cell.get("outputs", []):
                _shorten(output)
            return cell, resources
        # Remove the output value of a check, which is its points, because the inserted line shows them.
        cell.outputs = [output for output in cell.outputs if output.output_type != "execute_result"]
        for output in cell.outputs:
            if output.output_type == "error":
                kind = "" if output.ename == CHECK_ERROR else f"{output.ename}: "
                output.traceback = [without_paths(kind + output.evalue)]
            elif _SVG in output.get("data", {}):
                output.data = {"text/html": _picture(output.data[_SVG])}
        points = self._points.get(cell.metadata.nbgrader.grade_id)
        if points is not None:
            if points.verdict is not None and points.verdict.verdict == "error":
                cell.outputs = []  # A student can't correct a failure of the grading system.
            cell.outputs.insert(0, new_output("display_data", data={"text/html": points_line(points)}))
        return super().preprocess_cell(cell, resources, cell_index)


def _picture(svg: str) -> str:
    """Convert a check's SVG to an `<img>`, in which no script runs, with its description as alt text."""
    described = _DESCRIPTION.search(svg)
    content = b64encode(svg.encode()).decode()
    return f'<img src="data:{_SVG};base64,{content}" alt="{described[1] if described else ""}">'


def _points(nb: NotebookNode, names: dict[str, str]) -> dict[str, GradedCell]:
    """Return the points of each graded cell in the gradebook, keyed by cell name, in notebook order.

    `names` identifies the submitted notebook and the gradebook.
    """
    verdicts = verdicts_in(nb)
    with Gradebook(names["db_url"]) as gradebook:
        graded = gradebook.find_submission_notebook(names["notebook"], names["assignment"], names["student"])
        grades = {grade.name: grade for grade in graded.grades}
        unanswered = {comment.name for comment in graded.comments if comment.auto_comment == "No response."}
        order = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in nb.cells]
        return {
            name: GradedCell.of(grades[name], verdicts.get(name), name not in unanswered)
            for name in dict.fromkeys(order)
            if name in grades
        }


def _shorten(output: NotebookNode) -> None:
    """Remove the machine's paths from the text of a student's output, and shorten a long traceback."""
    if output.output_type == "error":
        lines = without_paths("\n".join(output.traceback)).split("\n")
        left_out = len(lines) - FIRST_LINES - LAST_LINES
        if left_out > 1:
            lines[FIRST_LINES:-LAST_LINES] = [f"... {left_out} lines are left out ..."]
        output.traceback = ["\n".join(lines)]
        output.evalue = without_paths(output.evalue)
    elif output.output_type == "stream":
        output.text = without_paths(output.text)
    elif "text/plain" in output.get("data", {}):
        output.data["text/plain"] = without_paths(output.data["text/plain"])


def without_paths(text: str) -> str:
    """Shorten the paths of Python files in a text to file names, and replace other local folders with "…".

    These folders are the working folder, the Python installation and the user's home folder.
    """
    text = _FOLDERS.sub(r"\1", text)
    for path in sorted({os.getcwd(), sys.prefix, sys.base_prefix, str(Path.home())}, key=len, reverse=True):
        if len(path) > 1:
            text = text.replace(path, "…")
    return text
