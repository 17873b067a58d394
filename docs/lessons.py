"""Execute the lessons' solutions and write them as pages of the web book, without the solutions.

A lesson is executed again only if it has changed since, or `course_lib`, which draws its charts. Pictures are
drawn as SVG, so that the pages need no scripts.
"""

import argparse
import hashlib
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.utils import is_grade, is_solution

from autograder.release.solutions import refresh
from course_lib.atomic_files import atomic_write_text
from course_lib.curriculum.course_file import LESSONS, SOURCES, CourseError, load_curriculum

COURSE = Path(__file__).resolve().parents[1]
PAGES = COURSE / "docs" / "lessons"

#: Code that runs before a lesson's first cell and draws charts as SVG, because widgets need a running kernel.
_DRAW_AS_SVG = """
import altair
from course_lib.charts.theme import NAME, as_svg
altair.renderers.register(NAME, lambda spec, **_: {"text/html": as_svg(altair.Chart.from_dict(spec))})
"""

_NOTE = """\
```{note}
This page shows the lesson as a student has completed it, without the solutions. To do it yourself, follow
[the guide for students](../students.md).
```
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 on success, 1 if the course or an argument is invalid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="only these lessons (default: all)")
    parser.add_argument("--into", type=Path, default=PAGES, help="the folder (default: docs/lessons)")
    parser.add_argument("--no-execute", action="store_true", help="leave the cells without outputs")
    options = parser.parse_args(arguments)
    try:
        problems = refresh(COURSE)
        lessons = {lesson.name: lesson for lesson in load_curriculum(COURSE).lessons}
    except CourseError as error:
        print(error, file=sys.stderr)
        return 1
    problems += [f"there is no lesson called {name!r}" for name in options.lessons if name not in lessons]
    if problems:
        print(*problems, sep="\n", file=sys.stderr)
        return 1
    options.into.mkdir(parents=True, exist_ok=True)
    library = digest_of(COURSE / "course_lib")
    for name in options.lessons or lessons:
        solution = nbformat.read(COURSE / SOURCES / name / f"{name}.ipynb", as_version=4)
        released = nbformat.read(COURSE / LESSONS / name / f"{name}.ipynb", as_version=4)
        text = library + nbformat.writes(solution) + nbformat.writes(released)
        digest = hashlib.sha256(text.encode()).hexdigest()
        page = options.into / f"{name}.ipynb"
        if page.is_file() and nbformat.read(page, as_version=4).metadata.get("digest") == digest:
            continue
        if not options.no_execute:
            print(f"executing {name}", flush=True)
            hand_ins = {f"check_{entry.name}" for entry in lessons[name].hand_ins}
            execute(solution, COURSE / SOURCES / name, may_fail=hand_ins)
            solution.metadata.digest = digest
        atomic_write_text(page, nbformat.writes(without_solutions(solution, released)))
    return 0


def digest_of(package: Path) -> str:
    """Return a digest of a package's files."""
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*")):
        if file.is_file() and file.suffix != ".pyc":
            digest.update(file.read_bytes())
    return digest.hexdigest()


def execute(notebook: NotebookNode, folder: Path, may_fail: Collection[str]) -> None:
    """Execute a notebook in a folder, and store the outputs in its cells.

    Raises CellExecutionError if a cell fails. Cells named in `may_fail` may fail, because they check files
    that only a student has; the outputs then show the error.
    """
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") in may_fail:
            cell.metadata.tags = [*cell.metadata.get("tags", []), "raises-exception"]
    notebook.cells.insert(0, new_code_cell(_DRAW_AS_SVG))
    NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(folder)}}).execute()
    del notebook.cells[0]


def without_solutions(notebook: NotebookNode, released: NotebookNode) -> NotebookNode:
    """Replace the solutions in a notebook with the stubs in `released`, and hide the source of its checks.

    The notebook also gets a note for readers. It is modified and returned.
    """
    stubs = {cell.id: cell.source for cell in released.cells}
    for cell in notebook.cells:
        if is_solution(cell):
            cell.source = stubs[cell.id]
        if is_grade(cell) and cell.cell_type == "code":
            cell.metadata.tags = [*cell.metadata.get("tags", []), "hide-input"]
    notebook.cells.insert(1, new_markdown_cell(_NOTE))
    return notebook


if __name__ == "__main__":
    sys.exit(main())
