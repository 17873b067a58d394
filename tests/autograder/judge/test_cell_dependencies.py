"""The choice of the cells to run: never too few, and no unnecessary ones in the lessons."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.judge.cell_dependencies import cells_to_run
from autograder.release.build import COURSE
from course_lib.curriculum.course_file import LESSONS, load_curriculum


def runs(*sources: str, shows: str = "", graded: tuple[str, ...] = ("answer",)) -> str:
    """Return the letters of the cells that run. The cells in `shows` may be skipped."""
    cells = [new_code_cell(source, id=chr(ord("a") + place)) for place, source in enumerate(sources)]
    return "".join(
        cell.id
        for cell, run in zip(cells, cells_to_run(cells, set(shows), graded=graded), strict=True)
        if run
    )


def test_a_cell_that_only_shows_is_left_out() -> None:
    assert runs("def answer(): return 1", "print(answer())", shows="b") == "a"


@pytest.mark.parametrize(
    "shown",
    [
        "size = 3",
        "size: int = 3",
        "from sizes import size",
        "import size",
        "def size(): pass",
        "class size: pass",
        "for size in range(3): pass",
        "with open('x') as size: pass",
        "(size := 3)",
        "[size, other] = 1, 2",
        "def set_it():\n    global size\n    size = 3\nset_it()",
        "size.length = 3",
        "size[0].width = 3",
        "del size.length",
        "size += 1",
        "%matplotlib inline\nsize = 3",
        "from sizes import *",
        "%run sizes.py",
        "exec('size = 3')",
        "globals()['size'] = 3",
        "size.append(3)",
        "size.parts[0].extend([3])",
    ],
)
def test_a_cell_that_binds_or_changes_what_an_answer_uses_runs(shown: str) -> None:
    assert runs(shown, "def answer(): return size", shows="a") == "ab"


def test_a_method_of_an_imported_module_changes_nothing() -> None:
    assert (
        runs("import torch", "torch.manual_seed(1)", "def answer(): return torch.ones(1)", shows="b") == "ac"
    )


def test_what_such_a_cell_uses_runs_too() -> None:
    assert runs("unit = 2", "size = 3 * unit", "other = 1", "def answer(): return size", shows="abc") == "abd"


def test_a_local_name_is_not_that_of_another_cell() -> None:
    assert runs("size = 3", "def answer():\n    size = 1\n    return size", shows="a") == "b"
    assert runs("size = 3", "def answer(size): return [size for size in range(size)]", shows="a") == "b"


def test_a_name_that_is_graded_is_needed() -> None:
    assert runs("answer = 3", "print(1)", shows="ab") == "a"


@pytest.mark.parametrize("using", ["eval('size')", "exec('x = size')", "globals()['size']", "%time size"])
def test_where_names_cannot_be_read_all_cells_run(using: str) -> None:
    assert runs("size = 3", "unit = 1", f"{using}", shows="ab") == "abc"


@pytest.mark.parametrize("long", ["a = %x\n" * 101, "# and so on\n" * 5_000])
def test_where_it_would_take_long_to_read_the_names_all_cells_run(long: str) -> None:
    assert runs("size = 3", "unit = 1", long, "answer = 2", shows="abc") == "abcd"


def test_a_cell_that_cannot_be_read_binds_nothing() -> None:
    assert runs("size = = 3", "def answer(): return size", shows="a") == "b"


def test_cells_of_text_and_judged_cells_do_not_run() -> None:
    cells = [new_markdown_cell("size", id="a"), new_code_cell("check()", id="b"), new_code_cell("1", id="c")]
    assert cells_to_run(cells, (), judged={"b"}) == [False, False, True]


@pytest.mark.parametrize("lesson", load_curriculum(COURSE).lessons, ids=lambda lesson: lesson.name)
def test_no_lesson_needs_its_pictures(lesson) -> None:
    notebook = nbformat.read(COURSE / LESSONS / lesson.name / f"{lesson.name}.ipynb", as_version=4)
    shows = {cell.id for cell in notebook.cells if "see" in cell.metadata.get("tags", [])}
    judged = {cell.id for cell in notebook.cells if cell.id.startswith("check_")}
    ran = {
        cell.id
        for cell, run in zip(
            notebook.cells, cells_to_run(notebook.cells, shows, judged, lesson.written), strict=True
        )
        if run
    }
    assert not ran & shows
    assert {entry.name for entry in lesson.exercises} <= ran
